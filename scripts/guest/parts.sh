# The parts of a guest's plan. `say` writes to the report; a line that begins with FAILED fails the run.
#
# Every `timeout` here kills in the end: cachewise passes the first TERM on to what it runs and goes on, and busybox
# sends no second one.

# The release binary does its everyday work.
smoke() {
    dd if=/dev/urandom of=/work/data bs=1M count=64 2>/dev/null
    sync
    for command in "run --json -- dd if=/work/data of=/dev/null bs=64k" "stat --json 0.5 2" "files --all --json" \
        "doctor --json --seconds 0"; do
        name="$(echo "$command" | cut -d' ' -f1)"
        # shellcheck disable=SC2086  # words
        timeout -k 10 "${limit:-600}" cachewise $command >"$out/smoke-$name.json" 2>"$out/smoke-$name.err"
        status=$?
        [ "$status" = 0 ] || say "FAILED: smoke $name: exit $status: $(cat "$out/smoke-$name.err")"
        ! grep -qE "estimates|this is a walk" "$out/smoke-$name.err" || say "FAILED: smoke $name: $(cat "$out/smoke-$name.err")"
    done
    timeout -k 10 "${limit:-600}" cachewise run -- dd if=/work/data of=/dev/null bs=64k >"$out/smoke-run.txt" 2>&1
    grep -q "exact to the page" "$out/smoke-run.txt" || say "FAILED: smoke run: not exact"
    grep -E "counted by|requested pages$|adds up" "$out/smoke-run.txt" | while read -r line; do say "smoke: $line"; done
    # What tasks wait for.
    cachewise evict /work/data >/dev/null
    timeout -k 10 "${limit:-600}" cachewise run --json -- dd if=/work/data of=/dev/null bs=64k >/dev/null 2>"$out/smoke-times.json"
    tr -d ' \n' <"$out/smoke-times.json" | grep -qE '"times":[{]"task_seconds":[0-9.]*[1-9]' || say "FAILED: smoke times: none were measured"
    grep -E '"(waited_(missed|in_flight)|unexplained|task)_seconds": [0-9.]*[1-9]' "$out/smoke-times.json" | tail -4 | while read -r line; do
        say "smoke times: $line"
    done
    # The stacks of its misses. busybox has no symbols.
    cachewise evict /work/data >/dev/null
    timeout -k 10 "${limit:-600}" cachewise run --stacks --folded "$out/smoke-stacks.folded" --stack-weight pages \
        -- dd if=/work/data of=/dev/null bs=64k >"$out/smoke-stacks.txt" 2>&1
    grep -q "^missed reads " "$out/smoke-stacks.txt" || say "FAILED: smoke stacks: $(tail -n 5 "$out/smoke-stacks.txt")"
    grep -q "^read;dd;.*filemap_.*_\[k\] [0-9]*$" "$out/smoke-stacks.folded" || say "FAILED: smoke stacks: no kernel frames"
    # Accesses one by one.
    timeout -k 10 "${limit:-600}" cachewise size -- sh -c 'cat /work/data /work/data >/dev/null' >"$out/smoke-size.txt" 2>&1
    status=$?
    [ "$status" = 0 ] || say "FAILED: smoke size: exit $status: $(tail -n 5 "$out/smoke-size.txt")"
    grep -qE "devices deliver ~[0-9.]+ % of requested pages" "$out/smoke-size.txt" || say "FAILED: smoke size: no curve"
    # Pages are dropped behind a program, where the kernel shows who uses them.
    cachewise evict /work/data >/dev/null
    timeout -k 10 "${limit:-600}" cachewise shield -- dd if=/work/data of=/dev/null bs=64k >"$out/smoke-shield.txt" 2>&1
    status=$?
    if [ "$series" = 6.1 ]; then
        { [ "$status" = 2 ] && grep -q "Linux 6.12" "$out/smoke-shield.txt"; } ||
            say "FAILED: smoke shield: exit $status: $(tail -n 5 "$out/smoke-shield.txt")"
    else
        grep -qE "^dropped 6[34][.0-9]* MiB of 6[4-9][.0-9]* MiB" "$out/smoke-shield.txt" ||
            say "FAILED: smoke shield: exit $status: $(tail -n 5 "$out/smoke-shield.txt")"
    fi
    grep "^dropped" "$out/smoke-shield.txt" | while read -r line; do say "smoke shield: $line"; done
    # With the programs and the table that rows are checked by.
    timeout -k 10 "${limit:-600}" cachewise run -v -- dd if=/work/data of=/dev/null bs=64k >"$out/smoke-checks.txt" 2>&1
    grep -q "exact to the page" "$out/smoke-checks.txt" || say "FAILED: smoke checks: not exact"
    grep -qE "residency, files: .* 0 violated" "$out/smoke-checks.txt" || say "FAILED: smoke checks: no row was checked"
    if [ "$extent" = all ]; then
        timeout -k 10 600 cachewise doctor --seconds 0 >"$out/smoke-doctor.txt" 2>&1
        timeout -k 10 600 cachewise files --all >"$out/smoke-files.txt" 2>&1
        timeout -k 10 600 cachewise stat 0.5 2 >"$out/smoke-stat.txt" 2>&1
    fi
    rm /work/data
}

# What reads are counted by where every way is allowed.
best() { if [ "$series" = 6.1 ]; then echo fentry; else echo tracepoints; fi; }

# busy: for how many hundredths of a second the CPUs of this guest have worked.
busy() { awk '/^cpu / { print $2 + $3 + $4 }' /proc/stat; }

# watched PROGRAM: ends it after $limit seconds (exit 143), and when the guest has done nothing for two minutes, which is a
# program that hangs (exit 99). A guest that gets little CPU is not idle: for its clock, what runs goes on.
watched() {
    "$@" &
    watched_pid=$!
    watched_end=$(($(cut -d. -f1 /proc/uptime) + ${limit:-3600}))
    watched_busy=$(busy)
    quiet_since=$(cut -d. -f1 /proc/uptime)
    while kill -0 "$watched_pid" 2>/dev/null; do
        sleep 2
        now=$(cut -d. -f1 /proc/uptime)
        # A twentieth of one CPU is what ticks and the guest's own loops may use.
        if [ $(($(busy) - watched_busy)) -gt $((5 * (now - quiet_since) + 100)) ]; then
            watched_busy=$(busy)
            quiet_since=$now
        elif [ $((now - quiet_since)) -ge 120 ]; then
            kill -9 "$watched_pid"
            wait "$watched_pid"
            return 99
        fi
        if [ "$now" -ge "$watched_end" ]; then
            kill -9 "$watched_pid"
            wait "$watched_pid"
            return 143
        fi
    done
    wait "$watched_pid"
}

# truth_by NAME BACK-ENDS [TRIAL...]: the ground-truth tests, by these back-ends only, of which NAME is to be
# the one that reads are counted by.
truth_by() {
    name="$1"
    by="$2"
    shift 2
    if is_late; then
        say "skipped: Linux $series: ground truth by $by: no time is left for it (scripts/test-kernels --all)"
        return
    fi
    # Without cachestat(2) the oracle is mincore(2), which wants disks that answer at once.
    if [ "$series" = 6.1 ] && [ -z "$disks" ]; then
        modprobe brd rd_nr=3 rd_size=327680
        disks="/dev/ram0 /dev/ram1 /dev/ram2"
    fi
    [ "$extent" = all ] || export CACHEWISE_TEST_SMALL=1
    watched env CACHEWISE_TEST_DIR=/work CACHEWISE_TEST_DISKS="$disks" CACHEWISE_TABLE="$out/truth-$by.md" \
        CACHEWISE_BACK_ENDS="$by" CACHEWISE_TEST_ONLY="${*:-::}" ground_truth >"$out/truth-$by.txt" 2>&1
    status=$?
    # At work until its limit. Whether it would go on for ever, or this guest got no CPU, the host can tell.
    if [ "$status" = 143 ]; then
        say "OVER: ground truth by $by: not done after ${limit:-3600} s"
        tail -n 20 "$out/truth-$by.txt" >>"$out/report"
        save
        return
    fi
    say "truth by $by: exit $status"
    sed -n '/^ground truth/,$p' "$out/truth-$by.txt" >>"$out/report"
    grep -E '^test result' "$out/truth-$by.txt" >>"$out/report"
    if [ "$status" != 0 ]; then
        [ "$status" = 99 ] && how="it hung, with this guest idle" || how="exit $status"
        say "FAILED: ground truth by $by: $how: see truth-$by.txt"
        # Which cases and why; of what was ended meanwhile, how far it came.
        if grep -q '^failures:' "$out/truth-$by.txt"; then
            sed -n '/^failures:/,/^test result/p' "$out/truth-$by.txt" | head -n 100
        else
            tail -n 20 "$out/truth-$by.txt"
        fi >>"$out/report"
    fi
    grep -qE '^test result: ok\. [1-9]' "$out/truth-$by.txt" || say "FAILED: ground truth by $by: no trial has passed: $*"
    grep -qx "ground truth by $name" "$out/truth-$by.txt" || say "FAILED: ground truth by $by: reads were not counted by $name"
    save
}

# What `make test` has the time for.
truth_part() {
    if [ "$series" = 6.1 ]; then
        truth_by fentry tracepoints,fentry,kprobes ext4::readv ext4::mmap
        truth_by fentry fentry,kprobes ext4::io_uring_forms ext4::direct_reads device::
        truth_by kprobes tracepoints,kprobes xfs::sendfile
        truth_by sys_exit tracepoints,sys_exit ext4::preadv2 ext4::overlay ext4::around_the_cache
        sleepers
    else
        truth_by tracepoints tracepoints,fentry,kprobes ext4::preadv2 xfs::io_uring_async
        truth_by tracepoints tracepoints,fentry btrfs::readv ext4::direct_reads
        truth_by fentry fentry,kprobes ext4::splice
    fi
}

# Every case by the back-end that is chosen here, and by each of the others what touches all of its programs.
truth() {
    truth_by "$(best)" tracepoints,fentry,kprobes
    few="::readv ::sendfile ::splice ::mmap ::io_uring_forms ::racing_threads ::direct_reads device::"
    if [ "$series" = 6.1 ]; then
        # shellcheck disable=SC2086  # several
        truth_by kprobes tracepoints,kprobes $few
        # It sees neither faults nor what is not a system call.
        truth_by sys_exit tracepoints,sys_exit ext4::readv ext4::sendfile ext4::splice ext4::copy_file_range xfs::preadv2 \
            ext4::overlay ext4::around_the_cache
    else
        # shellcheck disable=SC2086
        truth_by tracepoints tracepoints,fentry $few
        # shellcheck disable=SC2086
        truth_by tracepoints tracepoints,kprobes $few
        truth_by fentry fentry,kprobes ext4::splice xfs::readv
    fi
    sleepers
}

# By kprobes, more readers asleep at once than the kernel keeps places for: what is lost of them is said. The disk
# gives them a block now and then, so that they wait for each other.
sleepers() {
    dd if=/dev/urandom of=/work/data bs=1M count=64 2>/dev/null
    sync
    cachewise evict /work/data >/dev/null 2>&1
    mkdir -p /sys/fs/cgroup/slow
    echo "$(cat /sys/class/block/vda/dev) riops=5" >/sys/fs/cgroup/slow/io.max || say "FAILED: sleepers: io.max"
    # shellcheck disable=SC2016  # for the shell inside
    CACHEWISE_BACK_ENDS=kprobes timeout -k 10 "${limit:-60}" cachewise run --json -- sh -c '
        echo $$ >/sys/fs/cgroup/slow/cgroup.procs
        for i in $(seq 40); do dd if=/work/data of=/dev/null bs=4k count=1 skip=$((i * 400)) 2>/dev/null & done
        wait' >/dev/null 2>"$out/sleepers.json"
    say "sleepers: exit $?: $(tr -d '\n' <"$out/sleepers.json" | grep -o '"lost": *\[[^]]*\]')"
    tr -d ' \n' <"$out/sleepers.json" | grep -oE '[{][^{}]*"id":"returns"[^{}]*[}]' | grep -qE '"count":[1-9]' || say "FAILED: sleepers: nothing is said to be lost"
    rm /work/data
}

# said NAME PATTERN FILE WHAT: FAILED unless the file has a line with the pattern.
said() {
    if grep -qE "$2" "$3"; then
        say "$1: $4"
    else
        say "FAILED: $1: not said: $4"
        head -c 2000 "$3" >>"$out/report"
    fi
}

# blind NAME COMMAND...: what the program tells where it may not count. COMMAND goes before it.
blind() {
    name="$1"
    shift
    dd if=/dev/zero of=/tmp/small bs=4k count=16 2>/dev/null
    chmod 644 /tmp/small
    for command in "run --json -- cat /tmp/small" "stat --json 0.3 1" "files --json /tmp/small" "files --all" \
        "doctor --json --seconds 0"; do
        what="$(echo "$command" | cut -d' ' -f1)"
        case "$command" in "files --all") what=census ;; esac
        # shellcheck disable=SC2086  # words
        timeout -k 10 "${limit:-60}" "$@" cachewise $command >"/tmp/blind" 2>"/tmp/blind.err"
        status=$?
        { cat /tmp/blind.err /tmp/blind; } >"$out/blind-$name-$what.txt"
        # The bytes of the file are in what cat prints; the report is what follows.
        tr -d '\000' </tmp/blind >/tmp/blind.text
        cat /tmp/blind.err >>/tmp/blind.text
        # 101: it panicked; from 124 on: it hung, or was ended by a signal.
        { [ "$status" != 101 ] && [ "$status" -lt 124 ]; } || say "FAILED: $name, $what: exit $status"
        case "$what" in
        run | stat | census)
            said "$name, $what (exit $status)" 'estimates|this is a walk of' /tmp/blind.text "$(
                grep -oE '(these are estimates|this is a walk)[^"]*' /tmp/blind.text | head -1
            )"
            ;;
        files)
            # Without any counting it is known, or it is said that it is not and why.
            case "$status" in
            0) said "$name, $what (exit 0)" '"resident_pages":16[,}]' /tmp/blind.text "16 pages are resident" ;;
            2) said "$name, $what (exit 2)" 'residency is unknown' /tmp/blind.text "residency is unknown" ;;
            *) say "FAILED: $name, $what: exit $status" ;;
            esac
            ;;
        doctor)
            said "$name, $what (exit $status)" '"missing"' /tmp/blind.text "what is missing"
            ;;
        esac
    done
}

# Machines and users that let nothing be counted: estimates are marked and the reason is said.
refused() {
    mkdir -p /tmp/empty
    blind "no BTF" /bin/unshare -m sh -c 'mount --bind /tmp/empty /sys/kernel/btf && exec "$@"' sh
    for value in 0 2; do
        # Once 1 it cannot be changed any more.
        echo "$value" >/proc/sys/kernel/unprivileged_bpf_disabled 2>/dev/null
        blind "nobody, unprivileged_bpf_disabled=$(cat /proc/sys/kernel/unprivileged_bpf_disabled)" \
            /bin/setpriv --reuid 65534 --regid 65534 --clear-groups
    done
    blind "root of a user namespace" /bin/unshare -U -r
}

# The same where the kernel lets no program read its memory, which lasts until the next boot.
lockdown() {
    [ "$series" != 6.1 ] || { say "lockdown: it is the same as on Linux 6.12"; return; }
    echo confidentiality >/sys/kernel/security/lockdown || say "FAILED: lockdown: it cannot be set"
    blind "lockdown=confidentiality" env
}

# Multi-generational LRU on and off: the accounting is the same, what reclaim chooses is not.
mglru() {
    [ -e /sys/kernel/mm/lru_gen/enabled ] || { say "mglru: this kernel has none"; return; }
    was="$(cat /sys/kernel/mm/lru_gen/enabled)"
    for lru in 0 7; do
        echo "$lru" >/sys/kernel/mm/lru_gen/enabled
        say "mglru: lru_gen.enabled $(cat /sys/kernel/mm/lru_gen/enabled)"
        truth_by "$(best)" tracepoints,fentry,kprobes ext4::mmap ext4::refaults ext4::evictions
        mv "$out/truth-tracepoints,fentry,kprobes.txt" "$out/truth-lru_gen-$lru.txt"
    done
    echo "$was" >/sys/kernel/mm/lru_gen/enabled
}

# What that is worth, of a working set larger than what its control group may have.
mglru_matrix() {
    [ -e /sys/kernel/mm/lru_gen/enabled ] || { say "mglru: this kernel has none"; return; }
    cat >/tmp/m.toml <<'MATRIX'
repeats = 5
seed = 1
[[arm]]
name = "lru_gen on"
[[arm]]
name = "lru_gen off"
settings = { "lru_gen.enabled" = 0 }
[workload.zipf]
file = "/work/matrix"
size = "48M"
bytes = "48M"
chunk = "4K"
access = "zipf:0.99"
fill = "cold"
memory_max = "24M"
[workload.uniform]
file = "/work/matrix"
size = "48M"
bytes = "48M"
chunk = "4K"
access = "uniform"
fill = "cold"
memory_max = "24M"
MATRIX
    timeout -k 10 "${limit:-900}" cachewise bench matrix /tmp/m.toml >"$out/matrix.txt" 2>&1
    status=$?
    say "mglru: bench matrix: exit $status"
    [ "$status" = 0 ] || say "FAILED: bench matrix with lru_gen on and off: exit $status"
    cat "$out/matrix.txt" >>"$out/report"
}

# What reading in the right order is worth with it and without: files that are read again and again, with less memory
# than they need.
mglru_order() {
    [ -e /sys/kernel/mm/lru_gen/enabled ] || { say "mglru: this kernel has none"; return; }
    [ "$series" != 6.1 ] || { say "mglru: no orders: Linux $series has no cachestat(2), by which they are made"; return; }
    [ -x /bin/order ] || { say "mglru: the orders' bench is not here (scripts/test-kernels --all)"; return; }
    was="$(cat /sys/kernel/mm/lru_gen/enabled)"
    for lru in 0 7; do
        echo "$lru" >/sys/kernel/mm/lru_gen/enabled
        CACHEWISE_TEST_DIR=/work CACHEWISE_BENCH_FILES=8 CACHEWISE_BENCH_MIB=12 CACHEWISE_BENCH_CYCLES=8 \
            timeout -k 10 "${limit:-1800}" order --bench >"$out/order-lru_gen-$lru.txt" 2>&1
        status=$?
        say "mglru: orders, lru_gen.enabled $(cat /sys/kernel/mm/lru_gen/enabled): exit $status"
        [ "$status" = 0 ] || say "FAILED: orders with lru_gen $lru: exit $status"
        sed 's/^/order: /' "$out/order-lru_gen-$lru.txt" >>"$out/report"
    done
    echo "$was" >/sys/kernel/mm/lru_gen/enabled
}

# Miss ratios that `size` predicts beside those of memory groups, under MGLRU: three loads, four sizes each.
curve() {
    [ -e /sys/kernel/mm/lru_gen/enabled ] || { say "curve: this kernel has no MGLRU"; return; }
    [ "$series" != 6.1 ] || { say "curve: the rules of Linux 6.12 are simulated"; return; }
    [ -x /bin/size_groups ] || { say "curve: the bench of groups is not here (scripts/test-kernels --all)"; return; }
    was="$(cat /sys/kernel/mm/lru_gen/enabled)"
    echo y >/sys/kernel/mm/lru_gen/enabled
    CACHEWISE_TEST_DIR=/work CACHEWISE_BENCH_MIB=64 CACHEWISE_BENCH_READS=120000 CACHEWISE_BENCH_RUNS=1 CACHEWISE_BENCH_POINTS=2 \
        timeout -k 10 3600 size_groups --bench zipf-0.9 loop scan-hot-40 >"$out/curve.txt" 2>&1
    status=$?
    say "curve: lru_gen.enabled $(cat /sys/kernel/mm/lru_gen/enabled): exit $status"
    [ "$status" = 0 ] || say "FAILED: curves of size under MGLRU: exit $status"
    sed 's/^/curve: /' "$out/curve.txt" >>"$out/report"
    echo "$was" >/sys/kernel/mm/lru_gen/enabled
}
