# Other tools beside ours, on the same loads: a part of a guest's plan. They come on disks of their own
# (scripts/other-tools), each Debian release's in a root.

# number FIELD: of what was counted by ours last, over all files.
number() { grep -oE "\"$1\": ?[0-9]+" /tmp/ours.json | head -n 1 | grep -oE '[0-9]+$'; }

# A program that is read from these roots is read from a disk, and its pages are in the counts of a tool that counts
# the machine: so nothing else runs while a load does.
#
# before LOAD: brings the file into its state. the_load LOAD: what is measured; $ours goes before it.
before() {
    rm -f /work/new
    case "$1" in
    cold*) cachewise evict /work/data >/dev/null 2>&1 ;;
    warm* | direct*) cat /work/data >/dev/null ;;
    esac
}
the_load() {
    # shellcheck disable=SC2086  # nothing, or a command's words
    case "$1" in
    nothing) $ours sleep 5 ;;
    "write "*) $ours dd if=/dev/zero of=/work/new bs="${1#* }" count=64 2>/dev/null ;;
    direct*) $ours dd if=/work/data of=/dev/null bs="${1#* }" iflag=direct 2>/dev/null ;;
    *) $ours dd if=/work/data of=/dev/null bs="${1#* }" 2>/dev/null ;;
    esac
}

# What is true of a load, by how it is made.
truth_of() {
    case "$1" in
    nothing) echo "nothing asked for" ;;
    cold*) echo "16384 pages read, none was cached" ;;
    warm*) echo "16384 pages read, all were cached" ;;
    direct*) echo "no page read: 64 MiB around the cache" ;;
    write*) echo "no page read: 16384 written" ;;
    esac
}

# row_of FILE: the last row that a tool has printed; nothing while there is none.
row_of() { awk '/^ *[0-9]+ +[0-9]+ +[0-9]+ / { print $1 " hits, " $2 " misses" }' "$1" | tail -n 1; }

# started PROCESS: waits until a tool has its hooks, of which what it prints tells nothing in time.
started() {
    waited=0
    # shellcheck disable=SC2010  # what they are links to
    while [ "$waited" -lt 120 ] && [ -e "/proc/$1/exe" ] &&
        ! ls -l "/proc/$1/fd" 2>/dev/null | grep -qE 'bpf_link|perf_event'; do
        sleep 1
        waited=$((waited + 1))
    done
    # The last of several hooks.
    sleep 3
    [ -e "/proc/$1/exe" ]
}

# next_row: ends an interval of bcc's tool, and waits for its row.
next_row() {
    rows="$(wc -l <"/tmp/$name")"
    echo >&3
    waited=0
    while [ "$waited" -lt 60 ] && [ "$(wc -l <"/tmp/$name")" = "$rows" ]; do
        sleep 1
        waited=$((waited + 1))
    done
}

# bcc_tool NAME ROOT LOAD...: bcc's compiles for long, so it is started once. It would print a row after each
# interval: here an interval ends when a line is written to it.
bcc_tool() {
    name="$1"
    root="$2"
    shift 2
    rm -f /tmp/next
    mkfifo /tmp/next
    exec 3<>/tmp/next
    chroot "$root" /usr/bin/python3 -u -c 'import runpy, sys, time
time.sleep = lambda seconds: sys.stdin.readline()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' /usr/sbin/cachestat-bpfcc </tmp/next >"/tmp/$name" 2>&1 &
    tool=$!
    # Its first line comes after its hooks.
    waited=0
    while [ "$waited" -lt 900 ] && [ -e "/proc/$tool/exe" ] && ! grep -q HITS "/tmp/$name"; do
        sleep 1
        waited=$((waited + 1))
    done
    for load in "$@"; do
        grep -q HITS "/tmp/$name" || break
        before "$load"
        next_row
        ours=""
        the_load "$load"
        next_row
        say "tools: $load | $name: $(row_of "/tmp/$name")"
    done
    kill -KILL "$tool" 2>/dev/null
    wait "$tool" 2>/dev/null
    exec 3>&-
    [ -n "$(row_of "/tmp/$name")" ] || say "tools: $name does not start: $(last_words "/tmp/$name")"
    cp "/tmp/$name" "$out/tools-$name.txt"
}

# libbpf_tool NAME ROOT LOAD...: started for each load, and interrupted after it, when it prints its row.
libbpf_tool() {
    name="$1"
    root="$2"
    shift 2
    # In Debian 12 it has no name of its own.
    program="/usr/sbin/cachestat"
    [ -e "$root$program" ] || program="/usr/sbin/cachestat-libbpf"
    for load in "$@"; do
        before "$load"
        chroot "$root" "$program" 9999 1 >"/tmp/$name" 2>&1 &
        tool=$!
        if started "$tool"; then
            ours=""
            the_load "$load"
        fi
        kill -INT "$tool" 2>/dev/null
        # What does not end by that hangs.
        (sleep 60 && kill -KILL "$tool") >/dev/null 2>&1 &
        watch=$!
        wait "$tool" 2>/dev/null
        kill "$watch" 2>/dev/null
        cp "/tmp/$name" "$out/tools-$name-$(echo "$load" | tr ' ' -).txt"
        if [ -z "$(row_of "/tmp/$name")" ]; then
            say "tools: $name does not start: $(last_words "/tmp/$name")"
            return
        fi
        say "tools: $load | $name: $(row_of "/tmp/$name")"
    done
}

# last_words FILE: of what did not start; libbpf's cause comes before the program's own line.
last_words() { { grep -m 1 -iE 'failed to|error:|cannot' "$1" || true; grep -vE '^ *$' "$1" | tail -n 1; } | cut -c1-200 | uniq | tr '\n' ' '; }

tools() {
    mkdir -p /others /headers
    if ! mount -t ext4 -o ro /dev/vdc /others 2>/dev/null || ! mount -t ext4 -o ro /dev/vdd /headers 2>/dev/null; then
        say "skipped: Linux $series: other tools beside: their disks were not made (scripts/other-tools)"
        return
    fi
    mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
    for versions in /others/*.versions; do
        root="${versions%.versions}"
        for directory in proc sys dev; do
            mount --rbind "/$directory" "$root/$directory"
        done
        mount -t tmpfs tmp "$root/tmp"
        mount --bind /headers/usr/lib/modules "$root/usr/lib/modules"
        mount --bind /headers/usr/src "$root/usr/src"
    done
    dd if=/dev/urandom of=/work/data bs=1M count=64 2>/dev/null
    sync
    set -- nothing "cold 1M" "warm 1M" "cold 4k" "warm 4k" "direct 1M" "write 1M"
    for load in "$@"; do
        before "$load"
        rm -f /tmp/ours.json
        ours="timeout -k 10 600 cachewise run -o /tmp/ours.json --"
        the_load "$load" >/dev/null
        status=$?
        if [ "$status" != 0 ] || [ ! -s /tmp/ours.json ]; then
            say "FAILED: tools: $load: cachewise run: exit $status"
            continue
        fi
        cp /tmp/ours.json "$out/tools-$(echo "$load" | tr ' ' -).json"
        say "tools: $load | expected: $(truth_of "$load")"
        say "tools: $load | cachewise: $(number read_hit_pages) hits, $(number read_missed_pages) misses," \
            "$(number readahead_hit_pages) first uses of read-ahead, $(number direct_read_bytes) bytes around the cache," \
            "$(number write_pages) pages written"
    done
    for versions in /others/*.versions; do
        root="${versions%.versions}"
        while read -r package version <&4; do
            case "$package" in
            bpfcc-tools) bcc_tool "bcc-$version" "$root" "$@" ;;
            libbpf-tools) libbpf_tool "libbpf-tools-$version" "$root" "$@" ;;
            esac
            save
        done 4<"$versions"
    done
    rm -f /work/data /work/new
}
