//! `tier` and `mount`, with real servers and real mounts.

#[path = "../support/certificate.rs"]
mod certificate;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../../../cachewise/tests/support/mod.rs"]
mod support;

mod background;
mod csi;
mod dev_cluster;
mod drop;
mod faults;
mod files;
mod growing;
mod http_origin;
mod identity;
mod mount;
mod mount_attributes;
mod mount_names;
mod mount_pins;
mod mount_posix;
mod mounted;
mod named_files;
mod ordinary_user;
mod packaged;
mod permissions;
mod published;
mod published_attributes;
mod published_bucket;
mod published_faults;
mod published_s3;
mod publishers;
mod reader;
mod recorder;
mod rolling;
mod s3_names;
mod s3_origin;
mod s3_server;
mod settings;
mod trim;
mod walkthrough;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = reader::be_one() {
        return code;
    }
    let trials = [
        background::trials(),
        csi::trials(),
        dev_cluster::trials(),
        drop::trials(),
        files::trials(),
        http_origin::trials(),
        s3_origin::trials(),
        s3_names::trials(),
        mount::trials(),
        mount_attributes::trials(),
        mount_names::trials(),
        mount_pins::trials(),
        mount_posix::trials(),
        faults::trials(),
        growing::trials(),
        named_files::trials(),
        ordinary_user::trials(),
        packaged::trials(),
        identity::trials(),
        permissions::trials(),
        published::trials(),
        published_attributes::trials(),
        published_bucket::trials(),
        published_faults::trials(),
        published_s3::trials(),
        publishers::trials(),
        rolling::trials(),
        settings::trials(),
        trim::trials(),
        walkthrough::trials(),
    ];
    support::run("tier", trials.into_iter().flatten().collect())
}
