//! Trees of a bucket: up to 1,000 keys in one request, however deep they are.

use std::path::Path;
use std::pin::pin;

use futures_util::future::{Either, select};
use object_store::ObjectMeta;
use object_store::list::PaginatedListOptions;

use super::service::ITSELF;
use super::{S3, meta};
use crate::Error;
use crate::origin::Meta;
use crate::origin::network::directory;
use crate::origin::subtree::{End, Subtree, SubtreeBuilder};

impl S3 {
    /// Lists the keys below a directory, without a delimiter, as far as one request goes.
    pub(super) async fn subtree(&self, path: &Path) -> Result<Subtree, Error> {
        let below = self.below(path)?;
        let all = PaginatedListOptions::default();
        let page = self.page(path, "list", &below, all).await?;
        let objects = &page.result.objects;
        if objects.is_empty() && !path.as_os_str().is_empty() {
            return Err(Error::NotFound {
                path: path.to_owned(),
            });
        }
        let is_cut = page.page_token.is_some();
        Ok(tree(path, &below, objects, is_cut))
    }

    /// Looks at an object and for keys below it, both at the same time.
    pub(super) async fn object_or_subtree(
        &self,
        path: &Path,
    ) -> Result<(Meta, Option<Subtree>), Error> {
        if path.as_os_str().is_empty() {
            return Ok((directory(path), Some(self.subtree(path).await?)));
        }
        let (object, tree) = (pin!(self.object(path)), pin!(self.subtree(path)));
        let (object, tree) = match select(object, tree).await {
            Either::Left((Err(Error::NotFound { path }), tree)) => {
                (Err(Error::NotFound { path }), tree.await)
            }
            // Where both are there, the path is the object's.
            Either::Left((object, _)) => return Ok((object?, None)),
            Either::Right((tree, object)) => (object.await, tree),
        };
        match (object, tree) {
            (Err(Error::NotFound { .. }), Ok(tree)) => Ok((directory(path), Some(tree))),
            (Err(Error::NotFound { .. }), Err(error @ Error::NotFound { .. })) => Err(error),
            // There may be a key among the many that cannot be a path.
            (Err(Error::NotFound { .. }), Err(_)) => Ok((S3::directory(self, path).await?, None)),
            (object, _) => Ok((object?, None)),
        }
    }
}

fn tree(path: &Path, below: &str, objects: &[ObjectMeta], is_cut: bool) -> Subtree {
    let mut builder = SubtreeBuilder::new(path, directory);
    let name = |object: &ObjectMeta| -> Option<String> {
        let name = object.location.as_ref().strip_prefix(below)?;
        Some(name.to_owned())
    };
    let key = |object: &ObjectMeta| {
        let key = object.location.as_ref();
        key.strip_suffix(ITSELF).unwrap_or(key).to_owned()
    };
    for object in objects {
        let Some(name) = name(object) else { continue };
        match name.strip_suffix(ITSELF) {
            Some("") => {}
            Some(of) => builder.add(of, None),
            None => builder.add(&name, Some(meta(&path.join(&name), object).ok())),
        }
    }
    let last = objects.last().and_then(name);
    let end = match last.as_deref() {
        _ if !is_cut => None,
        // S3 sorts by bytes; some stores and its directory buckets do not.
        Some(last) if objects.is_sorted_by_key(key) => Some(End::Sorted(last)),
        _ => Some(End::Unsorted),
    };
    builder.finish(end)
}
