//! The thread that starts servers and outlives them.
//!
//! The kernel kills a server when the *thread* that started it ends. So `kill -9` of this process
//! leaves no servers. A caller's thread may end early and would take its servers with it, so a
//! dedicated thread starts them.

use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::error::DevClusterError;

/// A command to start, and the channel for its pid.
type Order = (Command, Sender<io::Result<u32>>);

#[derive(Debug)]
pub struct Keeper {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    children: Arc<Mutex<Vec<Child>>>,
}

impl Keeper {
    pub fn new() -> Result<Self, DevClusterError> {
        let (orders, ordered): (Sender<Order>, Receiver<Order>) = channel();
        let children = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&children);
        let start = move || {
            for (mut command, answer) in ordered {
                cachewise_sys::die_with_spawner(&mut command);
                let started = command.spawn().map(|child| {
                    let pid = child.id();
                    hold(&kept).push(child);
                    pid
                });
                // The caller may have given up.
                let _ = answer.send(started);
            }
        };
        let thread = cachewise_sys::start_thread("dev-cluster", start).map_err(|source| {
            DevClusterError::io("start the thread for", Path::new("servers"), source)
        })?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
            children,
        })
    }

    /// Starts it, to be killed with the keeper; returns its process id.
    pub fn start(&self, command: Command) -> io::Result<u32> {
        let (answer, answered) = channel();
        let gone = || io::Error::other("the thread that starts servers has ended");
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send((command, answer)).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// Those that have ended since this was last asked, and how.
    pub fn ended(&self) -> Vec<(u32, String)> {
        let mut ended = Vec::new();
        hold(&self.children).retain_mut(|child| match child.try_wait() {
            Ok(Some(status)) => {
                ended.push((child.id(), status.to_string()));
                false
            }
            _ => true,
        });
        ended
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Nothing is kept by them, and a stopped process hears nothing else.
        for child in hold(&self.children).iter_mut() {
            let _ = child.kill();
        }
        for child in hold(&self.children).iter_mut() {
            let _ = child.wait();
        }
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic while it was held leaves a list that is as good as before.
fn hold(children: &Mutex<Vec<Child>>) -> MutexGuard<'_, Vec<Child>> {
    children.lock().unwrap_or_else(PoisonError::into_inner)
}
