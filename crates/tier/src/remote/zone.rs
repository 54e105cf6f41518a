//! [`ZoneMap`]: zones of nodes by their subnets and names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Zones of nodes by subnets, addresses and host names, for nodes that do not know their own zone.
///
/// The text form is `a=10.0.1.0/24,a=10.0.4.7,b=b.example.org`. A host name includes all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneMap(Vec<(String, Nodes)>);

/// Some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Nodes {
    Subnet(IpNet),
    Address(IpAddr),
    Name(String),
}

impl ZoneMap {
    /// Returns the zone of a host; the first entry that fits counts.
    #[must_use]
    pub fn zone(&self, host: &str) -> Option<&str> {
        let fits = |nodes: &Nodes| nodes.have(host);
        let entry = self.0.iter().find(|(_, nodes)| fits(nodes));
        entry.map(|(zone, _)| zone.as_str())
    }
}

impl Nodes {
    fn have(&self, host: &str) -> bool {
        match self {
            Self::Subnet(subnet) => host.parse().is_ok_and(|ip: IpAddr| subnet.contains(&ip)),
            Self::Address(address) => host.parse() == Ok(*address),
            Self::Name(name) => {
                let before = host
                    .len()
                    .checked_sub(name.len())
                    .and_then(|at| host.split_at_checked(at))
                    .filter(|(_, end)| end.eq_ignore_ascii_case(name));
                before.is_some_and(|(before, _)| before.is_empty() || before.ends_with('.'))
            }
        }
    }
}

impl FromStr for ZoneMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |entry: &str| {
            let wrong = || {
                let entry = cachewise_units::escaped(entry);
                format!(
                    "{entry} is not ZONE=SUBNET, as a=10.0.1.0/24, a=10.0.4.7 or b=b.example.org"
                )
            };
            let (zone, nodes) = entry.split_once('=').ok_or_else(wrong)?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let nodes = match (nodes.parse(), nodes.parse()) {
                (Ok(subnet), _) => Nodes::Subnet(subnet),
                (_, Ok(address)) => Nodes::Address(address),
                _ if !nodes.is_empty() && nodes.chars().all(is_name) => {
                    Nodes::Name(nodes.to_owned())
                }
                _ => return Err(wrong()),
            };
            match zone.is_empty() {
                true => Err(wrong()),
                false => Ok((zone.to_owned(), nodes)),
            }
        };
        text.split(',')
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for ZoneMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (zone, nodes)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{zone}=")?;
            match nodes {
                Nodes::Subnet(subnet) => write!(f, "{subnet}"),
                Nodes::Address(address) => write!(f, "{address}"),
                Nodes::Name(name) => write!(f, "{name}"),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_in_the_zone_of_their_subnet_address_or_name() {
        let text = "a=10.0.1.0/24,a=10.0.4.7,b=b.example.org,c=fd00::/8";
        let map: ZoneMap = text.parse().expect("it is well-formed");
        assert_eq!(map.to_string(), text);
        for (host, zone) in [
            ("10.0.1.255", Some("a")),
            ("10.0.2.1", None),
            ("10.0.4.7", Some("a")),
            ("10.0.4.70", None),
            ("b.example.org", Some("b")),
            ("node-1.B.example.org", Some("b")),
            ("sub.example.org", None),
            ("fd00::17", Some("c")),
            ("", None),
            ("é.example.org", None),
        ] {
            assert_eq!(map.zone(host), zone, "{host}");
        }
    }

    #[test]
    fn entries_of_another_form_are_refused() {
        for text in [
            "",
            "a",
            "=10.0.0.0/8",
            "a=",
            "a=10.0.0.0/33",
            "a=10.0.0.0/8,",
            "a=x y",
        ] {
            let error = text.parse::<ZoneMap>().expect_err(text);
            assert!(error.contains("ZONE=SUBNET"), "{error}");
        }
    }
}
