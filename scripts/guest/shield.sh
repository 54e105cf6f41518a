# shellcheck shell=sh disable=SC2154  # read by init, which sets the variables
# The shield on NFS: server and client are in the guest, without the programs of nfs-utils.

# nfs_up: exports /work/exported, and mounts it on /work/nfs.
nfs_up() {
    modprobe nfsd && modprobe nfsv4 || return 1
    mkdir -p /work/exported /work/nfs
    ip link set lo up
    mount -t nfsd nfsd /proc/fs/nfsd || return 1
    # Each file is asked for once: with the answers of rpc.mountd, which are valid until 2038. 9218: insecure,
    # no_subtree_check, fsid; the number of the file system is 0.
    echo 'nfsd 127.0.0.1 2147483647 *' >/proc/net/rpc/auth.unix.ip/channel &&
        echo '* /work/exported 2147483647 9218 65534 65534 0' >/proc/net/rpc/nfsd.export/channel &&
        printf '* 1 \\x00000000 2147483647 /work/exported\n' >/proc/net/rpc/nfsd.fh/channel || return 1
    # Version 3 would need rpcbind.
    echo '-2 -3 +4' >/proc/fs/nfsd/versions || echo '-3 +4' >/proc/fs/nfsd/versions || return 1
    echo 'tcp 2049' >/proc/fs/nfsd/portlist && echo 2 >/proc/fs/nfsd/threads || return 1
    # No client has to come back.
    echo Y >/proc/fs/nfsd/v4_end_grace
    timeout 60 mount -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /work/nfs
}

# No inode number leads to a file on NFS: it is opened by the program's descriptor.
shield_nfs() {
    [ "$series" != 6.1 ] || return 0
    if ! nfs_up >"$out/shield-nfs.txt" 2>&1; then
        say "skipped: Linux $series: shield_nfs: no server or client of NFS: $(tail -n 2 "$out/shield-nfs.txt")"
        return
    fi
    dd if=/dev/urandom of=/work/exported/data bs=1M count=32 2>/dev/null
    timeout -k 10 "${limit:-600}" cachewise shield -- sh -c 'exec 3</work/nfs/data; cat <&3 >/dev/null; sleep 1' \
        >"$out/shield-nfs.txt" 2>&1
    status=$?
    grep -qE "^dropped 3[0-2][.0-9]* MiB of 32[.0-9]* MiB" "$out/shield-nfs.txt" ||
        say "FAILED: shield_nfs: exit $status: $(tail -n 12 "$out/shield-nfs.txt")"
    grep "^dropped [0-9]" "$out/shield-nfs.txt" | while read -r line; do say "shield_nfs: $line"; done
    timeout 60 umount /work/nfs || say "FAILED: shield_nfs: a file is still open"
}
