use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::*;

fn shell(script: &str, file: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(file);
    command
}

/// Whether this machine lets us trace; says so if not.
fn traced(command: &mut Command) -> Option<Traced> {
    match Traced::start(command) {
        Ok(traced) => Some(traced),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("skipped: trace: {error}");
            None
        }
        Err(error) => panic!("it starts: {error}"),
    }
}

#[test]
fn status_and_output_are_those_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out");
    let script = "for i in 1 2 3; do (echo $i) & done; wait; echo x | cat >\"$1\"; kill -USR1 $$ 2>/dev/null; exit 7";
    let mut command = shell(&format!("trap 'exit 9' USR1; {script}"), &file);
    command.stdout(std::process::Stdio::null());
    let Some(traced) = traced(&mut command) else {
        return;
    };
    let end = traced.wait(|_, _| {}).unwrap();
    assert_eq!(end.status.code(), Some(9), "a signal reached it");
    assert_eq!(end.killed, 0, "all have ended");
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n", "as without");
}

#[test]
fn opened_file_is_shared_with_the_task() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "text").unwrap();
    let mut command = shell(
        "exec 5<\"$1\"; grep -q '^flags:.*2000' /proc/$$/fdinfo/5",
        file.path(),
    );
    let Some(traced) = traced(&mut command) else {
        return;
    };
    let ours = File::open(file.path()).unwrap();
    let same = |fd: &std::os::fd::OwnedFd| {
        use std::os::unix::fs::MetadataExt;
        let file = File::from(fd.try_clone().unwrap());
        file.metadata().unwrap().ino() == ours.metadata().unwrap().ino()
    };
    let mut seen = 0;
    let end = traced.wait(|task, call| {
        if let Call::Opened(opened) = call
            && let Ok(fd) = task.descriptor(opened.file)
            && same(&fd)
        {
            seen += 1;
            let flags = fcntl_getfl(fd.as_fd()).unwrap();
            fcntl_setfl(fd.as_fd(), flags | OFlags::APPEND).unwrap();
        }
    });
    assert!(seen > 0, "the shell opens it");
    let status = end.unwrap().status;
    assert_eq!(
        status.code(),
        Some(0),
        "O_APPEND, set from here, is seen there"
    );
}

#[test]
fn mapping_is_advised_and_the_program_goes_on() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![b'a'; 1 << 20]).unwrap();
    let script = "import mmap, os, sys\n\
        fd = os.open(sys.argv[1], os.O_RDONLY)\n\
        view = mmap.mmap(fd, 1 << 20, prot=mmap.PROT_READ)\n\
        maps = open('/proc/self/smaps').read().split(sys.argv[1])[1]\n\
        flags = [line for line in maps.splitlines() if line.startswith('VmFlags')][0].split()\n\
        sys.exit(0 if 'rr' in flags and view[5] == 97 else 1)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(file.path());
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: trace: python3 is not installed");
        return;
    }
    let Some(traced) = traced(&mut command) else {
        return;
    };
    let mut advised = 0;
    let end = traced.wait(|task, call| {
        if let Call::Mapped(map) = call
            && !map.is_program
            && map.length == 1 << 20
        {
            task.advise(map.address, map.length, MapAdvice::Random)
                .unwrap();
            advised += 1;
        }
    });
    assert_eq!(end.unwrap().status.code(), Some(0), "it has VM_RAND_READ");
    assert_eq!(advised, 1, "one mapping of that size");
}

#[test]
fn changes_of_names_are_seen_if_they_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let changes = |script: &str| {
        let traced = traced(&mut shell(script, &file))?;
        let mut changes = Vec::new();
        let end = traced.wait(|_, call| {
            if let Call::Changed(name) = call {
                changes.push(name);
            }
        });
        assert!(end.unwrap().status.success(), "{script}");
        Some(changes)
    };
    let Some(none) = changes("rm -f \"$1.absent\"; cat \"$1\" >/dev/null") else {
        return;
    };
    assert!(none.is_empty(), "nothing changed: {none:?}");
    let truncates = |script: &str| {
        let traced = traced(&mut shell(script, &file))?;
        let mut truncates = 0;
        let end = traced.wait(|_, call| {
            truncates += usize::from(matches!(call, Call::Opened(opened) if opened.truncates));
        });
        assert!(end.unwrap().status.success(), "{script}");
        Some(truncates)
    };
    assert_eq!(truncates(": >\"$1.empty\""), Some(1), "O_TRUNC");
    assert_eq!(truncates(": >>\"$1.empty\""), Some(0), "it is appended to");
    let renamed = changes("mv \"$1\" \"$1.new\" && rm \"$1.new\"").unwrap();
    assert_eq!(renamed.len(), 2, "{renamed:?}");
    assert!(renamed[0].starts_with("rename") && renamed[1].starts_with("unlink"));
}

#[test]
fn unknown_program_is_an_error() {
    let error = Traced::start(&mut Command::new("/no/such/program")).unwrap_err();
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
    assert!(kinds.contains(&error.kind()), "{error}");
}
