//! [`KeyNames`]: names of blocks and leases in an engine.

use crate::{BlockKey, Settings};

/// Names of the blocks and leases of one tenant: readable, and without braces but those of leases, which Redis Cluster
/// interprets.
#[derive(Clone, Debug)]
pub(super) struct KeyNames {
    prefix: String,
}

impl KeyNames {
    pub(super) fn new(cache: &Settings) -> Self {
        let prefix = match &cache.tenant {
            Some(tenant) => format!("cw:{tenant}:"),
            None => "cw:".to_owned(),
        };
        Self { prefix }
    }

    pub(super) fn block(&self, key: &BlockKey) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Returns the name of a block's lease. The braces put it into the slot of the block.
    pub(super) fn lease(&self, key: &BlockKey) -> String {
        format!("{0}lease:{{{0}{key}}}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of ACLs and other versions rely on them.
    #[test]
    fn names_begin_with_those_of_their_tenant() {
        let key = BlockKey::from_bytes([1; 16]);
        let names = |tenant: Option<&str>| {
            KeyNames::new(&Settings {
                tenant: tenant.map(str::to_owned),
                ..Settings::default()
            })
        };
        let hash = "01".repeat(16);
        let (all, one) = (names(None), names(Some("a")));
        assert_eq!(all.block(&key), format!("cw:{hash}"));
        assert_eq!(all.lease(&key), format!("cw:lease:{{cw:{hash}}}"));
        assert_eq!(one.block(&key), format!("cw:a:{hash}"));
        assert_eq!(one.lease(&key), format!("cw:a:lease:{{cw:a:{hash}}}"));
    }
}
