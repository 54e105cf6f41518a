//! A real server of S3: moto, in an environment of Python's that is kept from one run to the next.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::http_origin::Server;
use crate::support::*;

/// Boto3 comes with it.
const MOTO: &str = "moto[s3,server]>=5,<6";

/// Objects that a page of a list has at most; those of S3 have 1,000, which take seconds to make.
pub const PAGE: usize = 100;

/// Makes a bucket with the files of a directory below a prefix, and a user; from then on the server looks at
/// signatures. Prints the user's keys. Arguments: the server, the directory, how many small objects more, the size of pages.
const SET_UP: &str = "
import boto3, json, os, sys, urllib.request
url, root, many = sys.argv[1], sys.argv[2], int(sys.argv[3])
made = dict(endpoint_url=url, region_name='us-east-1', aws_access_key_id='x', aws_secret_access_key='x')
iam, s3 = boto3.client('iam', **made), boto3.client('s3', **made)
iam.create_user(UserName='user')
key = iam.create_access_key(UserName='user')['AccessKey']
allow = dict(Effect='Allow', Action='s3:*', Resource='*')
policy = json.dumps(dict(Version='2012-10-17', Statement=[allow]))
iam.put_user_policy(UserName='user', PolicyName='all', PolicyDocument=policy)
s3.create_bucket(Bucket='bucket')
for directory, _, names in os.walk(root):
    for name in names:
        path = os.path.join(directory, name)
        s3.upload_file(path, 'bucket', 'some data/' + os.path.relpath(path, root))
s3.put_object(Bucket='bucket', Key='some data/marked/', Body=b'')
for number in range(many):
    s3.put_object(Bucket='bucket', Key='many/%d' % number, Body=b'x')
is_cut = s3.list_objects_v2(Bucket='bucket', Prefix='many/')['IsTruncated']
assert is_cut == (many > int(sys.argv[4])), 'pages of another size'
text = {'Content-Type': 'text/plain'}
urllib.request.urlopen(urllib.request.Request(url + '/moto-api/reset-auth', b'0', text, method='POST'))
print(key['AccessKeyId'], key['SecretAccessKey'])
";

/// Writes a file's bytes over an object. Arguments: the server, the file, the key; who asks is in the environment.
const PUT: &str = "
import boto3, sys
s3 = boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1')
s3.put_object(Bucket='bucket', Key=sys.argv[3], Body=open(sys.argv[2], 'rb').read())
";

/// Runs the server with one request at a time: moto looks at a condition and writes in two steps. Arguments: the port.
const ONE_BY_ONE: &str = "
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
served, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()
def one(environ, start):
    with turn:
        return list(served(environ, start))
run_simple('127.0.0.1', int(sys.argv[1]), one, threaded=True)
";

/// A bucket on a server that runs until it is dropped.
pub struct Bucket {
    server: Server,
    python: PathBuf,
    id: String,
    secret: String,
}

/// Runs it, and returns what it printed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The environment's Python; or why it cannot be had.
fn environment() -> Result<PathBuf, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("the crate lies two below");
    // Relative to where `make test` was called.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    let place = root.join(target).join("moto");
    let python = place.join("bin/python");
    let last = |why: String| why.trim().lines().last().unwrap_or("no reason").to_owned();
    // Several tests begin at once, and the first one makes it for all.
    let lock = File::create(place.with_extension("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    if run(Command::new(&python).args(["-c", "import boto3, flask, moto.server"])).is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))
            .map_err(|why| format!("python3 -m venv: {}", last(why)))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-compile", MOTO]))
            .map_err(|why| format!("pip install {MOTO}: {}", last(why)))?;
    }
    Ok(python)
}

impl Bucket {
    /// Starts a server, and brings the files of a directory to it; none, and it is said why, where that cannot be.
    pub fn start(what: &str, files: &Path, many: usize) -> Option<Bucket> {
        Bucket::with_pages(what, files, many, PAGE)
    }

    /// Starts a server with pages of another size.
    pub fn with_pages(what: &str, files: &Path, many: usize, page: usize) -> Option<Bucket> {
        let python = match environment() {
            Ok(python) => python,
            Err(why) => {
                println!("skipped: {what}: {why}");
                return None;
            }
        };
        let server = Server::start(what, |port| {
            let mut command = Command::new(&python);
            command
                .args(["-c", ONE_BY_ONE, &port.to_string()])
                .env("MOTO_S3_DEFAULT_MAX_KEYS", page.to_string())
                .env_remove("INITIAL_NO_AUTH_ACTION_COUNT");
            command
        })?;
        let mut set_up = Command::new(&python);
        set_up
            .args(["-c", SET_UP, &server.url("")])
            .arg(files)
            .arg(many.to_string())
            .arg(page.to_string());
        let keys = run(&mut set_up).unwrap_or_else(|why| panic!("the bucket is made: {why}"));
        let (id, secret) = keys.trim().split_once(' ').expect("two words");
        Some(Bucket {
            server,
            python,
            id: id.to_owned(),
            secret: secret.to_owned(),
        })
    }

    /// The port of its server.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// Returns the environment with credentials and endpoint.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.server.url("")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", self.id.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.secret.clone()),
        ]
    }

    /// Returns a command with the credentials of the bucket.
    pub fn cachewise<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = alone(arguments);
        command.envs(self.environment());
        command
    }

    /// Runs a program of Python with `s3`, a client of the server, and `args`, the arguments; returns what it prints.
    pub fn python(&self, program: &str, arguments: &[&str]) -> String {
        let program = format!(
            "import boto3, sys\nargs = sys.argv[2:]\n\
             s3 = boto3.client('s3', endpoint_url=sys.argv[1], region_name='us-east-1')\n{program}"
        );
        let mut command = Command::new(&self.python);
        command
            .args(["-c", &program, &self.server.url("")])
            .args(arguments)
            .envs(self.environment());
        run(&mut command).unwrap_or_else(|why| panic!("{program}: {why}"))
    }

    /// Writes over an object.
    pub fn put(&self, key: &str, file: &Path) {
        let mut put = Command::new(&self.python);
        put.args(["-c", PUT, &self.server.url("")])
            .arg(file)
            .arg(key)
            .envs(self.environment());
        run(&mut put).unwrap_or_else(|why| panic!("{key} is written: {why}"));
    }
}

/// Returns a command without credentials.
pub fn alone<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = cachewise(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
}
