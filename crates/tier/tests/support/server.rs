//! [`Server`]: a real server on this machine, ended with the test.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A real server, ended when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub address: SocketAddrV4,
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

impl Server {
    /// Starts it, and waits until it listens. `command` makes the command of a port.
    pub fn start(ip: Ipv4Addr, command: impl Fn(u16) -> Command) -> Self {
        for _ in 0..5 {
            let address = SocketAddrV4::new(ip, free_port());
            let mut child = command(address.port())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the server is installed");
            let end = Instant::now() + Duration::from_secs(30);
            // Somebody else may have got the port: then it ends, and another one is tried.
            while child.try_wait().expect("it is ours").is_none() && Instant::now() < end {
                if TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_ok() {
                    return Self { child, address };
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("the server does not start");
    }

    pub fn memcached() -> Self {
        Self::start(Ipv4Addr::LOCALHOST, |port| {
            let mut command = Command::new("memcached");
            command.args(["-l", "127.0.0.1", "-U", "0", "-m", "64", "-u", "root"]);
            command.args(["-p", &port.to_string()]);
            command
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that is stopped dies of SIGKILL too; it may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
