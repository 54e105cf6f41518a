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

/// Returns a port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

impl Server {
    /// Starts it, and waits until it listens. `command` makes the command of a port.
    pub fn start(ip: Ipv4Addr, command: impl Fn(u16) -> Command) -> Self {
        for _ in 0..5 {
            let address = SocketAddrV4::new(ip, free_port());
            let child = Self::spawn(command(address.port()));
            let mut server = Self { child, address };
            // Another process may have taken the port: the server then exits, and another port is
            // tried.
            if server.listens() {
                return server;
            }
        }
        panic!("the server does not start");
    }

    /// Starts it where another one was, and waits until it listens.
    pub fn again(address: SocketAddrV4, command: impl Fn(u16) -> Command) -> Self {
        let child = Self::spawn(command(address.port()));
        let mut server = Self { child, address };
        assert!(server.listens(), "the server does not start again");
        server
    }

    fn spawn(mut command: Command) -> Child {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server is installed")
    }

    /// Waits until it listens, and says whether it does; not if it ended.
    fn listens(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        while self.child.try_wait().expect("it is ours").is_none() && Instant::now() < end {
            let within = Duration::from_secs(1);
            if TcpStream::connect_timeout(&self.address.into(), within).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
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
