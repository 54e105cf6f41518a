# Who evicted a file: a part of a guest's plan. Machines of their own have little memory and version 2 of control groups.

# evicted FILE: the pages of $2 in a report by cause and program, `group_limit:dd 1234`, one a line.
evicted() {
    awk -v path="\"$2\"" '
        /"evictions": \[/ { on = 1 }
        on && /"cause":/ { cause = $2; gsub(/[",]/, "", cause); program = "-" }
        on && /"evicted_pages":/ { pages = $2; gsub(/,/, "", pages) }
        on && /"path":/ { here = $2; gsub(/,$/, "", here) }
        on && /"command":/ { program = $2; gsub(/[",]/, "", program) }
        on && /"culprit":/ { last = 1 }
        on && /"started":|"culprit": null/ { if (here == path) sum[cause ":" program] += pages }
        /"(devices|times)":/ { on = 0 }
        END { for (key in sum) print key, sum[key] }' "$1"
}

# culprit NAME LIKE FILE SCRIPT: of the pages of FILE that left while the script ran, at least 95 % are those of the
# causes and programs LIKE.
culprit() {
    name="$1" like="$2" file="$3"
    cachewise evict /work/index /work/stream >/dev/null
    # shellcheck disable=SC2154  # of the first process
    timeout -k 10 "${limit:-600}" cachewise run --json -- sh -c "$4" >/dev/null 2>"$out/culprit-$name.json"
    status=$?
    evicted "$out/culprit-$name.json" "$file" >/tmp/evicted
    all="$(awk '{ n += $2 } END { print n + 0 }' /tmp/evicted)"
    right="$(awk -v like="^($like)\$" '$1 ~ like { n += $2 } END { print n + 0 }' /tmp/evicted)"
    say "culprits: $name: $right of $all pages by $like ($(tr '\n' ' ' </tmp/evicted))"
    if [ "$status" != 0 ] || [ "$all" -lt 1000 ] || [ $((right * 100)) -lt $((all * 95)) ]; then
        say "FAILED: culprits: $name: exit $status"
    fi
}

culprits() {
    dd if=/dev/urandom of=/work/index bs=1M count=32 2>/dev/null
    dd if=/dev/urandom of=/work/stream bs=1M count=160 2>/dev/null
    sync
    mkdir -p /sys/fs/cgroup/small
    echo 64M >/sys/fs/cgroup/small/memory.max
    within='echo $$ >/sys/fs/cgroup/small/cgroup.procs;'
    culprit limit 'group_limit:dd' /work/index \
        "$within cat /work/index >/dev/null; dd if=/work/stream of=/dev/null bs=64k 2>/dev/null"
    # High is no limit that kills; reclaim runs when the task returns to its program.
    echo max >/sys/fs/cgroup/small/memory.max
    echo 64M >/sys/fs/cgroup/small/memory.high
    culprit high 'group_limit:dd' /work/index \
        "$within cat /work/index >/dev/null; dd if=/work/stream of=/dev/null bs=64k 2>/dev/null"
    echo max >/sys/fs/cgroup/small/memory.high
    if [ -e /sys/fs/cgroup/small/memory.reclaim ]; then
        culprit reclaim 'proactive_reclaim:sh' /work/index \
            "$within cat /work/index >/dev/null; echo 48M >/sys/fs/cgroup/small/memory.reclaim 2>/dev/null; true"
    fi
    culprit drop_caches 'drop_caches:sh' /work/index "cat /work/index >/dev/null; echo 1 >/proc/sys/vm/drop_caches"
    # A machine that is short of memory: its background reclaim, and the program that fills it.
    mkdir -p /mnt
    mount -t tmpfs -o size=95% fill /mnt
    free="$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)"
    dd if=/dev/zero of=/mnt/fill bs=1M count=$((free - 140)) 2>/dev/null
    culprit shortage 'kswapd:-|direct_reclaim:dd' /work/index \
        "cat /work/index >/dev/null; dd if=/work/stream of=/dev/null bs=64k 2>/dev/null"
    umount /mnt
    rm /work/index /work/stream
}
