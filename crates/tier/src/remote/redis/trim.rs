//! [`trim`]: counts the blocks of Redis nodes by tenant, and removes those that are unused or over a limit.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use cachewise_units::Bytes as Size;
use tokio::time::timeout;

use super::protocol::{self, Redis, hopeless, login};
use super::resp::{self, RespReply};
use super::topology;
use crate::remote::wire::{Buffers, Connection, Dialer};
use crate::remote::{Address, EngineKind, EngineSettings, RemoteError};
use crate::{Error, Settings};

/// Time limit of a connection, and of the replies to one page of keys.
const WITHIN: Duration = Duration::from_secs(10);

/// Keys in a page, about: a node answers others in between.
const PAGE: &[u8] = b"500";

/// The blocks to remove from an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrimOptions {
    /// Remove blocks that no client has read or written for this time.
    pub unused: Option<Duration>,
    /// Maximum memory for the blocks of each tenant: those that were not used for the longest time are removed.
    pub limit: Option<Size>,
    /// Count alone.
    pub is_trial: bool,
}

/// The blocks of one tenant in an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantBlocks {
    /// Its name; empty for blocks without a tenant.
    pub tenant: String,
    /// Blocks that are left.
    pub blocks: u64,
    /// Their memory, with what the servers add.
    pub bytes: u64,
    /// Blocks that were removed.
    pub removed_blocks: u64,
    /// Their memory.
    pub removed_bytes: u64,
    /// Time for which the block that is left and was not used for the longest time was not used; `None` for none, and
    /// where servers do not store it.
    pub longest_unused: Option<Duration>,
}

/// One block.
#[derive(Debug)]
struct StoredKey {
    node: usize,
    name: Bytes,
    bytes: u64,
    /// Seconds since it was last used, at its primary and its replicas.
    unused: Option<u64>,
}

/// Counts the blocks of an engine by tenant, and removes those that the options say. With [`Settings::tenant`] it counts and
/// removes the blocks of that tenant only.
///
/// # Errors
/// [`Error::Setting`] without an engine of Redis; [`Error::Engine`] for a node that does not answer, as its blocks are not
/// known then, and for one that does not store when blocks were used.
pub async fn trim(settings: &Settings, options: TrimOptions) -> Result<Vec<TenantBlocks>, Error> {
    let wrong = |why: &str| Error::Setting {
        setting: "engine",
        why: why.to_owned(),
    };
    let engine = settings.engine.as_ref();
    let engine = engine.ok_or_else(|| {
        wrong("no engine is configured: name a node of it, redis-cluster://HOST:PORT")
    })?;
    if engine.kind == EngineKind::Memcached {
        return Err(wrong(
            "memcached does not list its keys: it evicts blocks by itself, and tenants need servers of their own",
        ));
    }
    let patient = Settings {
        connect: WITHIN,
        whole: WITHIN,
        ..settings.clone()
    };
    let is_cluster = engine.kind == EngineKind::RedisCluster;
    let buffers = Buffers::for_blocks(settings.block.0);
    let trimmer = Trimmer {
        dialer: Dialer::new(Redis::new(engine, is_cluster), engine, &patient, &buffers)?,
        engine,
        tenant: settings.tenant.as_deref(),
    };
    let shards = match is_cluster {
        true => trimmer.shards().await?,
        false => engine.nodes.iter().map(|node| vec![node.clone()]).collect(),
    };
    let mut primaries = Vec::new();
    let mut keys = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let mut connections = Vec::new();
        for node in shard {
            connections.push((node, trimmer.dial(node).await?));
        }
        keys.extend(trimmer.keys(number, &mut connections).await?);
        primaries.push(connections.swap_remove(0));
    }
    let is_removing = options.unused.is_some() || options.limit.is_some();
    if is_removing && let Some(key) = keys.iter().find(|key| key.unused.is_none()) {
        let node = primaries.get(key.node).map(|(node, _)| *node);
        let why = "maxmemory-policy is LFU, with which it does not store when blocks were used: set allkeys-lru";
        return Err(trimmer.failed(node, why));
    }
    let mut tenants: BTreeMap<String, Vec<StoredKey>> = BTreeMap::new();
    for key in keys {
        if let Some(tenant) = tenant_of(&key.name) {
            tenants.entry(tenant).or_default().push(key);
        }
    }
    let mut rows = Vec::new();
    for (tenant, mut keys) in tenants {
        keys.sort_by_key(|key| key.unused);
        let removed = removed(&mut keys, options);
        let removed = match options.is_trial {
            true => removed,
            false => trimmer.remove(removed, &mut primaries).await?,
        };
        let sum = |keys: &[StoredKey]| keys.iter().map(|key| key.bytes).sum();
        rows.push(TenantBlocks {
            tenant,
            blocks: count(keys.len()),
            bytes: sum(&keys),
            removed_blocks: count(removed.len()),
            removed_bytes: sum(&removed),
            longest_unused: keys
                .last()
                .and_then(|key| key.unused)
                .map(Duration::from_secs),
        });
    }
    Ok(rows)
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

/// Takes away what is to be removed of the blocks of a tenant, the last used of which are first.
fn removed(keys: &mut Vec<StoredKey>, options: TrimOptions) -> Vec<StoredKey> {
    let mut room = options.limit.unwrap_or(Size(u64::MAX)).0;
    let most = options.unused.map(|unused| unused.as_secs());
    let kept = keys.iter().take_while(|key| {
        let fits = room.checked_sub(key.bytes);
        room = fits.unwrap_or(room);
        fits.is_some() && most.is_none_or(|most| key.unused < Some(most))
    });
    let kept = kept.count();
    keys.split_off(kept)
}

/// Returns the tenant in the name of a block; `None` for other keys.
fn tenant_of(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?.strip_prefix("cw:")?;
    let (tenant, block) = name.rsplit_once(':').unwrap_or(("", name));
    let is_block = block.len() == 32 && block.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_block && !tenant.contains(':')).then(|| tenant.to_owned())
}

struct Trimmer<'a> {
    dialer: Dialer<Redis>,
    engine: &'a EngineSettings,
    /// The only tenant whose blocks are counted; `None` for all.
    tenant: Option<&'a str>,
}

type NodeConnection<'a> = (&'a Address, Connection<Redis>);

impl Trimmer<'_> {
    fn failed(&self, node: Option<&Address>, why: impl std::fmt::Display) -> Error {
        let why = why.to_string();
        let why = match login(&why) {
            Some(advice) => format!("{}: {advice}", why.trim_end_matches('.')),
            None => why,
        };
        Error::Engine {
            engine: self.engine.to_string(),
            why: node.map_or_else(|| why.clone(), |node| format!("{node}: {why}")),
        }
    }

    async fn dial(&self, node: &Address) -> Result<Connection<Redis>, Error> {
        let dialed = self.dialer.dial(node).await;
        dialed.map_err(|error| self.failed(Some(node), error))
    }

    /// Returns the nodes of each shard, the primary first, as the first node that answers tells them.
    async fn shards(&self) -> Result<Vec<Vec<Address>>, Error> {
        let mut failed = None;
        for node in &self.engine.nodes {
            let asked = async {
                let mut connection = self.dialer.dial(node).await?;
                let reply = protocol::ask(&mut connection, &[b"CLUSTER", b"SLOTS"]).await?;
                topology::ranges(reply, node)
            };
            match timeout(WITHIN, asked).await {
                Ok(Ok(ranges)) => return Ok(topology::shards(ranges)),
                Ok(Err(why)) => failed = Some(self.failed(Some(node), why)),
                Err(_) => failed = Some(self.failed(Some(node), RemoteError::Deadline)),
            }
        }
        Err(failed.unwrap_or_else(|| self.failed(None, "it has no node")))
    }

    /// Returns the pattern of the names of the keys; the names of tenants have no letter with a meaning in it.
    fn pattern(&self) -> String {
        self.tenant
            .map_or_else(|| "cw:*".to_owned(), |tenant| format!("cw:{tenant}:*"))
    }

    /// Returns the blocks of a shard: as the primary lists them, and used as the primary or a replica used them.
    async fn keys(
        &self,
        number: usize,
        nodes: &mut [NodeConnection<'_>],
    ) -> Result<Vec<StoredKey>, Error> {
        let mut keys: HashMap<Bytes, StoredKey> = HashMap::new();
        let mut cursor = Bytes::from_static(b"0");
        let pattern = self.pattern();
        loop {
            let scan: [&[u8]; 6] = [
                b"SCAN",
                &cursor,
                b"MATCH",
                pattern.as_bytes(),
                b"COUNT",
                PAGE,
            ];
            let Some((primary, _)) = nodes.split_first_mut() else {
                return Ok(Vec::new());
            };
            let page = self.ask_all(primary, &[scan.to_vec()]).await?.pop();
            let Some((next, names)) = page.and_then(page_of) else {
                return Err(self.failed(Some(primary.0), "SCAN of a form that is not known"));
            };
            let names: Vec<Bytes> = names
                .into_iter()
                .filter(|name| {
                    let found = tenant_of(name);
                    found.is_some_and(|found| self.tenant.is_none_or(|tenant| tenant == found))
                })
                .collect();
            // Neither question counts as a use.
            let sizes: Vec<Vec<&[u8]>> = names
                .iter()
                .map(|name| vec![&b"MEMORY"[..], b"USAGE", name])
                .collect();
            let sizes = self.ask_all(primary, &sizes).await?;
            let idle: Vec<Vec<&[u8]>> = names
                .iter()
                .map(|name| vec![&b"OBJECT"[..], b"IDLETIME", name])
                .collect();
            let mut unused: Vec<Option<u64>> = vec![None; names.len()];
            for node in nodes.iter_mut() {
                let idle = self.ask_all(node, &idle).await?;
                for (unused, idle) in unused.iter_mut().zip(&idle) {
                    let idle = number_of(idle);
                    *unused =
                        unused.map_or(idle, |unused| Some(unused.min(idle.unwrap_or(unused))));
                }
            }
            for ((name, size), unused) in names.into_iter().zip(&sizes).zip(unused) {
                // It may be gone since it was listed.
                if let Some(bytes) = number_of(size) {
                    let node = number;
                    let key = StoredKey {
                        node,
                        name: name.clone(),
                        bytes,
                        unused,
                    };
                    keys.insert(name, key);
                }
            }
            if next.as_ref() == b"0" {
                return Ok(keys.into_values().collect());
            }
            cursor = next;
        }
    }

    /// Removes blocks; returns those that were removed, and not gone before.
    async fn remove(
        &self,
        keys: Vec<StoredKey>,
        primaries: &mut [NodeConnection<'_>],
    ) -> Result<Vec<StoredKey>, Error> {
        let mut removed = Vec::new();
        let mut of_node: HashMap<usize, Vec<StoredKey>> = HashMap::new();
        for key in keys {
            of_node.entry(key.node).or_default().push(key);
        }
        for (number, keys) in of_node {
            let Some(primary) = primaries.get_mut(number) else {
                continue;
            };
            let commands: Vec<Vec<&[u8]>> = keys
                .iter()
                .map(|key| vec![&b"UNLINK"[..], &key.name])
                .collect();
            let mut replies = Vec::new();
            for page in commands.chunks(500) {
                replies.extend(self.ask_all(primary, page).await?);
            }
            let done = keys.into_iter().zip(replies);
            let done = done.filter(|(_, reply)| *reply == RespReply::Number(1));
            removed.extend(done.map(|(key, _)| key));
        }
        Ok(removed)
    }

    /// Sends commands at once, and returns their replies. A command that is not permitted is an error.
    async fn ask_all(
        &self,
        (node, connection): &mut NodeConnection<'_>,
        commands: &[Vec<&[u8]>],
    ) -> Result<Vec<RespReply>, Error> {
        let asked = async {
            let mut bytes = Vec::new();
            for command in commands {
                resp::command(&mut bytes, command, None);
            }
            connection.send(Bytes::from(bytes)).await?;
            let mut replies = Vec::with_capacity(commands.len());
            for _ in commands {
                replies.push(connection.reply(None).await?);
            }
            Ok::<_, RemoteError>(replies)
        };
        let replies = timeout(WITHIN, asked).await;
        let replies = replies.unwrap_or(Err(RemoteError::Deadline));
        let replies = replies.map_err(|error| self.failed(Some(node), error))?;
        let refused = replies.iter().find_map(|reply| match reply {
            RespReply::Error(why) if hopeless(why).is_some() => Some(why),
            _ => None,
        });
        match refused {
            Some(why) if login(why).is_some() => Err(self.failed(Some(node), why)),
            Some(_) => Err(self.failed(
                Some(node),
                format!(
                    "the user needs +scan +memory|usage +object|idletime +unlink and ~{}",
                    self.pattern()
                ),
            )),
            None => Ok(replies),
        }
    }
}

/// Returns the next cursor and the keys in the reply to `SCAN`.
fn page_of(reply: RespReply) -> Option<(Bytes, Vec<Bytes>)> {
    let RespReply::List(members) = reply else {
        return None;
    };
    let [RespReply::Value(Some(next)), RespReply::List(keys)] = members.as_slice() else {
        return None;
    };
    let keys = keys.iter().map(|key| match key {
        RespReply::Value(Some(key)) => Some(key.clone()),
        _ => None,
    });
    Some((next.clone(), keys.collect::<Option<_>>()?))
}

fn number_of(reply: &RespReply) -> Option<u64> {
    match reply {
        RespReply::Number(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_blocks_name_their_tenant() {
        let hash = "0123456789abcdef0123456789abcdef";
        for (name, tenant) in [
            (format!("cw:{hash}"), Some("")),
            (format!("cw:team-a:{hash}"), Some("team-a")),
            (format!("cw:lease:{{cw:{hash}}}"), None),
            (format!("cw:team-a:lease:{{cw:team-a:{hash}}}"), None),
            (format!("other:{hash}"), None),
            ("cw:0123".to_owned(), None),
        ] {
            assert_eq!(tenant_of(name.as_bytes()).as_deref(), tenant, "{name}");
        }
    }

    #[test]
    fn blocks_unused_for_the_longest_time_go_first() {
        let keys = || -> Vec<StoredKey> {
            [(1, 100), (5, 100), (60, 50), (90, 100)]
                .map(|(unused, bytes)| StoredKey {
                    node: 0,
                    name: Bytes::new(),
                    bytes,
                    unused: Some(unused),
                })
                .into()
        };
        let left = |unused: Option<u64>, limit: Option<u64>| {
            let mut keys = keys();
            let options = TrimOptions {
                unused: unused.map(Duration::from_secs),
                limit: limit.map(Size),
                is_trial: false,
            };
            let removed = removed(&mut keys, options);
            assert_eq!(removed.len() + keys.len(), 4);
            keys.len()
        };
        assert_eq!(left(None, None), 4);
        assert_eq!(left(Some(60), None), 2);
        assert_eq!(left(None, Some(250)), 3);
        assert_eq!(left(None, Some(249)), 2);
        assert_eq!(left(Some(5), Some(249)), 1);
        assert_eq!(left(None, Some(0)), 0);
    }
}
