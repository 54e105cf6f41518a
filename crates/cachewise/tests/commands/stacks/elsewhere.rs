//! Programs that are not at their path here: in another mount namespace, or deleted.

use super::*;

/// The tests.
pub(super) fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "a_program_of_another_mount_namespace_has_its_lines",
            a_program_of_another_mount_namespace_has_its_lines,
        ),
        needs_root(
            "a_deleted_program_has_its_lines",
            a_deleted_program_has_its_lines,
        ),
    ]
}

fn index_has_its_line(report: &Report) {
    let place = ("load_index", line(C, "index"));
    let found = sum(report, "read", "pages", Some(place));
    is_mostly(found, INDEX_PAGES, place.0, report);
}

/// Runs a script with the program as `$1`, the file as `$2` and a directory as `$3`.
fn report_of_script(scratch: &Scratch, script: &str) -> Option<Report> {
    let compiler = ["gcc", "-g", "-O2", "-static"];
    let program = compiled(scratch, "events.c", C, &compiler)?;
    let file = cold(scratch);
    let directory = scratch.path("root");
    std::fs::create_dir(&directory).expect("there is room");
    let words = ["sh", "-ec", script, "sh"].map(std::ffi::OsStr::new);
    let paths = [program.as_path(), &file, &directory];
    let paths = paths.into_iter().map(Path::as_os_str);
    let report = report_of(&["--stacks"], words.into_iter().chain(paths));
    assert_eq!(report.ended.code(), 0, "{}", report.ended.err());
    Some(report)
}

fn a_program_of_another_mount_namespace_has_its_lines() {
    let scratch = Scratch::new();
    let script = "exec unshare -m sh -ec 'mount -t tmpfs none \"$3\"; cp \"$1\" \"$3/app\"; : > \"$3/file\"; \
         mount --bind \"$2\" \"$3/file\"; exec chroot \"$3\" /app reads /file' sh \"$1\" \"$2\" \"$3\"";
    let Some(report) = report_of_script(&scratch, script) else {
        return;
    };
    assert!(!Path::new("/app").exists(), "its path leads nowhere here");
    index_has_its_line(&report);
}

fn a_deleted_program_has_its_lines() {
    let scratch = Scratch::new();
    // It begins after the first byte of its input: by then another file has its name.
    let script = "mkfifo \"$3/go\"; \"$1\" reads \"$2\" waits < \"$3/go\" & \
         exec 3> \"$3/go\"; until [ \"$(readlink /proc/$!/exe)\" = \"$1\" ]; do sleep 0.05; done; rm \"$1\"; cp /bin/true \"$1\"; printf x >&3; exec 3>&-; wait";
    let Some(report) = report_of_script(&scratch, script) else {
        return;
    };
    index_has_its_line(&report);
}
