use libbpf_rs::btf::types::Composite;
use libbpf_rs::btf::{Btf, BtfType, HasSize as _};
use std::os::fd::AsRawFd;

use super::*;

/// A description by hand: words of types, and names.
fn blob(types: &[u32], strings: &str) -> Contents {
    let length = size_of_val(types) as u32;
    let mut bytes = MAGIC.to_ne_bytes().to_vec();
    bytes.extend([1, 0]);
    for word in [24, 0, length, length, strings.len() as u32]
        .iter()
        .chain(types)
    {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend(strings.as_bytes());
    Contents::Copied(bytes)
}

fn info(kind: u32, count: u32) -> u32 {
    kind << 24 | count
}

fn parse(types: &KernelTypes) -> Btf<'static> {
    let file = types.to_file().expect("a file in memory");
    Btf::from_path(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("libbpf reads it")
}

#[test]
fn types_keep_their_members() {
    // an unsigned int, a typedef of it, and a file with one of those and a pointer
    let kernel = blob(
        &[
            1,
            info(kind::INT, 0),
            4,
            32, // 1
            5,
            info(kind::TYPEDEF, 0),
            1, // 2
            0,
            info(kind::PTR, 0),
            1, // 3
            9,
            info(kind::STRUCT, 2),
            16,
            14,
            2,
            0,
            18,
            3,
            64, // 4
        ],
        "\0int\0u32\0file\0pos\0next\0",
    );
    let types = cut(&[kernel]).expect("it is well formed");
    assert_eq!(types.id("file"), 4, "the kernel's own number of the type");
    assert_eq!(types.id("inode"), 0, "a kernel without the type");
    let btf = parse(&types);
    let file: Composite<'_> = btf.type_by_name("file").expect("the type is there");
    let members: Vec<_> = file
        .iter()
        .map(|member| member.name.and_then(|name| name.to_str()).unwrap_or(""))
        .collect();
    assert_eq!(members, ["pos", "next"], "both members by name");
    assert_eq!(file.size(), 16, "as large as it was");
}

#[test]
fn a_module_goes_on_where_the_kernel_ends() {
    let kernel = blob(&[1, info(kind::INT, 0), 4, 32], "\0int\0");
    // names from 5 on are the module's, and so are types from 2 on
    let module = blob(
        &[
            5,
            info(kind::STRUCT, 1),
            4,
            17,
            1,
            0, // 2
            22,
            info(kind::STRUCT, 1),
            4,
            17,
            2,
            0, // 3
        ],
        "btrfs_root\0\0id\0\0\0btrfs_inode\0",
    );
    let types = cut(&[kernel, module]).expect("it is well formed");
    assert_eq!(types.id("btrfs_root"), 2, "numbers go on");
    assert_eq!(types.id("btrfs_inode"), 3, "numbers go on");
    let btf = parse(&types);
    let inode: Composite<'_> = btf.type_by_name("btrfs_inode").expect("it is there");
    let held = inode.iter().next().expect("it has a member").ty;
    let held = btf
        .type_by_id::<BtfType<'_>>(held)
        .expect("its type is there");
    assert_eq!(
        held.name().and_then(|name| name.to_str()),
        Some("btrfs_root"),
        "and holds the other one"
    );
}

#[test]
fn what_is_malformed_is_an_error() {
    let whole = [1, info(kind::STRUCT, 1), 4, 0, 9, 0];
    for (words, why) in [
        (&whole[..], "a member's type that does not exist"),
        (&[1, info(31, 0), 0], "an unknown kind"),
        (&whole[..2], "a cut type"),
        (
            &[1, info(kind::STRUCT, 1), 4, 0, 1, 0],
            "a type that holds itself",
        ),
    ] {
        assert!(cut(&[blob(words, "\0file\0")]).is_err(), "{why}");
    }
    for bytes in [&b""[..], b"\x9f\xeb\x01", b"no BTF at all, but long enough"] {
        assert!(
            cut(&[Contents::Copied(bytes.to_vec())]).is_err(),
            "no header"
        );
    }
}

#[test]
fn the_running_kernel_has_what_programs_need() {
    let Ok(types) = KernelTypes::read() else {
        println!("skipped: the running kernel's types: it does not show them");
        return;
    };
    let (ours, kernel) = (
        parse(&types),
        Btf::from_vmlinux().expect("libbpf reads it too"),
    );
    for name in ["inode", "address_space", "folio", "task_struct", "file"] {
        let cut: Composite<'_> = ours.type_by_name(name).expect("it is wanted");
        let whole: Composite<'_> = kernel
            .type_by_id(types.id(name).into())
            .expect("the number is the kernel's");
        assert_eq!(
            whole.name().and_then(|name| name.to_str()),
            Some(name),
            "the number names it"
        );
        assert_eq!(cut.size(), whole.size(), "{name} is as large as it was");
        let members = |of: &Composite<'_>| {
            of.iter()
                .map(|member| {
                    (
                        member.name.map(ToOwned::to_owned),
                        format!("{:?}", member.attr),
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            members(&cut),
            members(&whole),
            "{name} has the same members in the same places"
        );
    }
}
