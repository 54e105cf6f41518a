//! A store from a URL and the environment.

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::ClientConfigKey;
use object_store::{BackoffConfig, RetryConfig};
use reqwest::Url;

use super::service::Connector;
use crate::Error;
use crate::origin::network::{Client, NetworkOptions};
use crate::settings::check_identity;

/// The settings that each provide credentials.
const CREDENTIALS: [AmazonS3ConfigKey; 6] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::SecretAccessKey,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
    AmazonS3ConfigKey::MetadataEndpoint,
];

/// Which variables say where it is; the first comes first.
const ENDPOINTS: [AmazonS3ConfigKey; 2] =
    [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];

/// A store, and what it is called.
pub(super) struct SetUp {
    pub store: AmazonS3,
    pub prefix: String,
    pub identity: String,
}

fn wrong(why: &str) -> Error {
    Error::Setting {
        setting: "origin",
        why: why.to_owned(),
    }
}

/// Puts a store together.
pub(super) fn open(url: &str, options: &NetworkOptions) -> Result<SetUp, Error> {
    with(url, options, AmazonS3Builder::from_env())
}

fn with(url: &str, options: &NetworkOptions, mut builder: AmazonS3Builder) -> Result<SetUp, Error> {
    check_identity(options.identity.as_deref())?;
    let (bucket, prefix) = parts(url)?;
    let said = |key: &AmazonS3ConfigKey| builder.get_config_value(key).is_some();
    // Without any, the client would ask the machine it runs on, which only machines of AWS answer.
    let is_signed = CREDENTIALS.iter().any(said);
    let endpoint = ENDPOINTS
        .iter()
        .find_map(|key| builder.get_config_value(key));
    let where_it_is = match &endpoint {
        Some(endpoint) => Some(checked_endpoint(endpoint, &builder)?),
        None => None,
    };
    if !is_signed {
        builder = builder.with_skip_signature(true);
    }
    let is_https = where_it_is
        .as_ref()
        .is_none_or(|url| url.scheme() == "https");
    let client = Client::new(options.read_deadline, is_https)?;
    let store = builder
        .with_bucket_name(&bucket)
        .with_http_connector(Connector(client))
        // Retries happen in a lower layer.
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: options.read_deadline,
        })
        .build()
        .map_err(|error| wrong(&format!("variables AWS_*: {error}")))?;
    let identity = match (&options.identity, where_it_is) {
        (Some(name), _) => format!("named:{name}"),
        // Names of buckets are AWS's own, whatever the region.
        (None, None) => format!("s3://{bucket}/{prefix}"),
        (None, Some(endpoint)) => format!("s3+{endpoint}#{bucket}/{prefix}"),
    };
    Ok(SetUp {
        store,
        prefix,
        identity,
    })
}

/// Parses `s3://BUCKET/PREFIX`. Errors do not show it, as it may contain a password.
fn parts(url: &str) -> Result<(String, String), Error> {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let rest = rest.ok_or_else(|| wrong("a bucket is written s3://BUCKET/PREFIX"))?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if bucket.is_empty() || bucket.len() > 255 || !bucket.chars().all(is_plain) {
        return Err(wrong(
            "a bucket is written s3://BUCKET/PREFIX, and its name is of letters, digits, dots, - and _; \
             the server is in AWS_ENDPOINT_URL in the environment, and keys are in AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY",
        ));
    }
    let prefix = prefix.trim_end_matches('/');
    if prefix.is_empty() {
        return Ok((bucket.to_owned(), String::new()));
    }
    let key = object_store::path::Path::parse(prefix).map_err(|_| {
        wrong("the prefix has an empty name, `.`, `..` or a control character in it")
    })?;
    Ok((bucket.to_owned(), format!("{key}/")))
}

/// Reads where the store is.
fn checked_endpoint(text: &str, builder: &AmazonS3Builder) -> Result<Url, Error> {
    let url = Url::parse(text)
        .map_err(|error| wrong(&format!("AWS_ENDPOINT_URL is not a URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "AWS_ENDPOINT_URL has a user in it: keys are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ));
    }
    let allows = AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp);
    let allows = builder.get_config_value(&allows).as_deref() == Some("true");
    match url.scheme() {
        "https" => Ok(url),
        "http" if allows => Ok(url),
        "http" => Err(wrong(
            "AWS_ENDPOINT_URL is not encrypted: use https, or allow it by AWS_ALLOW_HTTP=true",
        )),
        _ => Err(wrong("AWS_ENDPOINT_URL begins with https:// or http://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_up(url: &str, pairs: &[(AmazonS3ConfigKey, &str)]) -> Result<SetUp, Error> {
        let builder = pairs
            .iter()
            .fold(AmazonS3Builder::new(), |builder, (key, value)| {
                builder.with_config(*key, *value)
            });
        with(url, &NetworkOptions::default(), builder)
    }

    const ALLOW: (AmazonS3ConfigKey, &str) = (
        AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp),
        "true",
    );

    #[test]
    fn buckets_and_prefixes_are_what_they_are() {
        let local = [
            (AmazonS3ConfigKey::Endpoint, "http://127.0.0.1:9000"),
            ALLOW,
        ];
        let of = |url: &str| {
            let found = set_up(url, &local).unwrap();
            (found.prefix, found.identity)
        };
        let at = "s3+http://127.0.0.1:9000/#";
        assert_eq!(of("s3://data"), (String::new(), format!("{at}data/")));
        assert_eq!(of("s3://data/"), (String::new(), format!("{at}data/")));
        assert_eq!(
            of("s3://data/a b/c?/"),
            ("a b/c?/".to_owned(), format!("{at}data/a b/c?/"))
        );
    }

    #[test]
    fn what_cannot_be_an_origin_is_refused_and_no_secret_repeated() {
        let endpoint = |value| (AmazonS3ConfigKey::Endpoint, value);
        for (url, pairs) in [
            ("s3://", vec![]),
            ("s3://key:geheim@bucket/x", vec![]),
            ("s3://bucket/a//geheim", vec![]),
            ("s3://bucket/../geheim", vec![]),
            ("s3://bucket", vec![endpoint("http://geheim.example")]),
            ("s3://bucket", vec![endpoint("ftp://geheim.example"), ALLOW]),
            ("s3://bucket", vec![endpoint("https://key:geheim@host")]),
            ("s3://bucket", vec![endpoint("https://geheim host")]),
            (
                "s3://bucket",
                vec![
                    endpoint("http://127.0.0.1:1"),
                    ALLOW,
                    (AmazonS3ConfigKey::SecretAccessKey, "geheim"),
                ],
            ),
        ] {
            let Err(error) = set_up(url, &pairs) else {
                panic!("{url} {pairs:?}");
            };
            let said = error.to_string();
            assert!(!said.contains("geheim"), "{said}");
        }
    }
}
