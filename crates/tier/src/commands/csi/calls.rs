//! The calls of the Container Storage Interface as HTTP/2 requests: each path has a function that answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{MethodRouter, post};
use prost::Message;
use tonic::server::{Grpc, UnaryService};
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    Empty, NodeCall, NodeCallKind, NodeCapabilities, NodeCapability, NodeInfo, PluginCapabilities,
    PluginInfo, Probe,
};
use super::node::Node;

/// Name of the driver, as in `CSIDriver` and in volumes.
pub const DRIVER: &str = "tier.cachewise";

/// Returns the calls, answered by this node.
pub fn router(node: &Arc<Node>) -> Router {
    Router::new()
        .route("/csi.v1.Identity/GetPluginInfo", call(node, plugin_info))
        .route(
            "/csi.v1.Identity/GetPluginCapabilities",
            call(node, |_, Empty {}| Ok(PluginCapabilities {})),
        )
        .route("/csi.v1.Identity/Probe", call(node, probe))
        .route("/csi.v1.Node/NodeGetInfo", call(node, node_info))
        .route("/csi.v1.Node/NodeGetCapabilities", call(node, capabilities))
        .route("/csi.v1.Node/NodeStageVolume", call(node, Node::stage))
        .route("/csi.v1.Node/NodeUnstageVolume", call(node, Node::unstage))
        .route("/csi.v1.Node/NodePublishVolume", call(node, Node::publish))
        .route(
            "/csi.v1.Node/NodeUnpublishVolume",
            call(node, Node::unpublish),
        )
        .fallback(|| async {
            Status::unimplemented("a node plugin without a controller does not serve this call")
                .into_http::<Body>()
        })
}

fn plugin_info(_: &Node, Empty {}: Empty) -> Result<PluginInfo, Status> {
    Ok(PluginInfo {
        name: DRIVER.to_owned(),
        vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn probe(node: &Node, Empty {}: Empty) -> Result<Probe, Status> {
    node.check()?;
    Ok(Probe { ready: Some(true) })
}

fn node_info(node: &Node, Empty {}: Empty) -> Result<NodeInfo, Status> {
    Ok(NodeInfo {
        node_id: node.name().to_owned(),
    })
}

fn capabilities(_: &Node, Empty {}: Empty) -> Result<NodeCapabilities, Status> {
    let rpc = Some(NodeCall {
        kind: NodeCallKind::StageUnstageVolume.into(),
    });
    Ok(NodeCapabilities {
        capabilities: vec![NodeCapability { rpc }],
    })
}

/// A function that answers requests of the type `Q`.
struct Answering<Q, A> {
    node: Arc<Node>,
    answer: fn(&Node, Q) -> Result<A, Status>,
}

impl<Q, A> Clone for Answering<Q, A> {
    fn clone(&self) -> Self {
        Self {
            node: Arc::clone(&self.node),
            answer: self.answer,
        }
    }
}

impl<Q: Send + 'static, A: Send + 'static> UnaryService<Q> for Answering<Q, A> {
    type Response = A;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let Self { node, answer } = self.clone();
        // A call that was begun is ended, also when its client has gone.
        let answered = tokio::task::spawn_blocking(move || answer(&node, request.into_inner()));
        Box::pin(async move {
            let ended = answered.await;
            let answer = ended.map_err(|error| Status::internal(error.to_string()))?;
            answer.map(Response::new)
        })
    }
}

fn call<Q, A>(node: &Arc<Node>, answer: fn(&Node, Q) -> Result<A, Status>) -> MethodRouter
where
    Q: Message + Default + Send + 'static,
    A: Message + Default + Send + 'static,
{
    let answering = Answering {
        node: Arc::clone(node),
        answer,
    };
    post(move |request: Request| async move {
        let mut grpc = Grpc::new(ProstCodec::<A, Q>::default());
        grpc.unary(answering, request).await
    })
}
