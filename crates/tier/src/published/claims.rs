//! Marks of publishers for each other and for `gc` where a store has no locks: serials that are taken, and versions that a
//! publisher builds on.
//!
//! `gc` removes records, then reads what is held, then the records that are left, and then removes packs. A publisher
//! holds the version before, then checks that its record is there; it lets go when its own record is written. So a pack
//! that is needed is found by one of both reads, or the publisher finds that the version is gone.

use ring::rand::{SecureRandom, SystemRandom};

use super::address::Hash;
use super::error::PublishError;
use super::record::{Record, VersionName};
use super::store::Store;

/// The folder of what is held; each file has the hash of a list of packs.
pub(super) const HELD: &str = "held";

/// Returns a random number, written in 32 hexadecimal digits.
pub(super) fn random(store: &Store) -> Result<[u8; 16], PublishError> {
    let mut bytes = [0; 16];
    let made = SystemRandom::new().fill(&mut bytes);
    made.map_err(|_| {
        let error = std::io::Error::other("the kernel gives no random numbers");
        PublishError::io("write", store.root(), error)
    })?;
    Ok(bytes)
}

fn token(store: &Store) -> Result<String, PublishError> {
    Ok(format!("{:032x}", u128::from_be_bytes(random(store)?)))
}

/// The packs of a version, held until this is dropped. One that a killed process leaves counts for the age that `gc` has.
#[derive(Debug)]
pub(super) struct Held<'a> {
    store: &'a Store,
    name: String,
}

impl<'a> Held<'a> {
    /// Holds the packs of a version; `None` if the version is gone.
    pub(super) fn take(store: &'a Store, base: &Record) -> Result<Option<Self>, PublishError> {
        let held = Self {
            store,
            name: format!("{HELD}/{}", token(store)?),
        };
        store.put(&held.name, base.packs.to_string().as_bytes())?;
        let there = store.get(&base.name.path())?;
        let is_there = there.is_some_and(|bytes| {
            Record::unverified(&bytes, &base.name).is_ok_and(|record| record == *base)
        });
        Ok(is_there.then_some(held))
    }

    /// Lets go.
    pub(super) fn release(self) -> Result<(), PublishError> {
        self.store.remove(std::slice::from_ref(&self.name))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Nothing is lost where it stays: `gc` removes it when it is old.
        let _ = self.store.remove(std::slice::from_ref(&self.name));
    }
}

/// Returns the list of packs that a file in [`HELD`] names.
pub(super) fn held_list(bytes: &[u8]) -> Option<Hash> {
    Hash::parse(std::str::from_utf8(bytes).ok()?)
}

/// The folder of the serials of a name that were taken.
pub(super) fn serials(name: &str) -> String {
    format!("names/{name}/serials")
}

/// Takes the next serial behind one.
pub(super) fn take_serial(
    store: &Store,
    name: &VersionName,
    behind: u64,
) -> Result<u64, PublishError> {
    let text = format!("{name} {}\n", token(store)?);
    let mut serial = behind.saturating_add(1);
    while !store.create_file(
        &format!("{}/{serial}", serials(&name.name)),
        text.as_bytes(),
    )? {
        serial = serial.saturating_add(1);
    }
    Ok(serial)
}
