//! Rights of the caller: file capabilities of the program open no file that the caller cannot open.

use anyhow::{Context, Result, bail};

/// Gives up file capabilities beyond those for probes: files are opened with the rights of the caller.
///
/// # Errors
/// The program is set-user-ID or set-group-ID, or the kernel refuses.
pub fn use_rights() -> Result<()> {
    if !cachewise_sys::has_rights_of_its_own() {
        return Ok(());
    }
    if rustix::process::geteuid() != rustix::process::getuid()
        || rustix::process::getegid() != rustix::process::getgid()
    {
        bail!(
            "cannot run set-user-ID or set-group-ID: every user would read every file with it; \
             `cachewise doctor --setcap` prints how to give a group what counting needs"
        );
    }
    cachewise_sys::give_up_rights_over_files()
        .context("cannot give up capabilities over files that the caller does not have")
}
