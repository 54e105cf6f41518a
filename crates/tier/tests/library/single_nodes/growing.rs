//! Nodes that are added and taken away by naming others: a share of the blocks moves, and no more.

use cachewise_tier::{Table, Tier};

use super::{Nodes, engines};
use crate::support::{self, BLOCK, Files, forgetful, read_all, row};

const FILES: usize = 120;

/// Returns the engine address of these nodes, in this order.
fn named(nodes: &Nodes, numbers: &[usize]) -> String {
    let all = nodes.engine();
    let (scheme, _) = all.split_once("://").expect("a scheme");
    let names: Vec<String> = numbers
        .iter()
        .map(|number| nodes.pid_and_name(*number).1)
        .collect();
    format!("{scheme}://{}", names.join(","))
}

/// Reads everything through a cache that was just opened, as after a mount was started again with other settings.
async fn read_again(files: &Files, engine: &str) -> Table {
    read_all(files, forgetful(Some(engine))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_more_or_less_moves_its_share_and_no_more() {
    let _alone = support::alone().await;
    for nodes in engines() {
        let files = Files::new(FILES, BLOCK);
        support::fill(&files, &named(&nodes, &[0, 1, 2])).await;

        // A fair share of four is 30 of 120, with a standard deviation of 5.
        let grown = read_again(&files, &named(&nodes, &[3, 2, 1, 0])).await;
        let moved = row(&grown, Tier::Origin).hits;
        assert!((8..=56).contains(&moved), "a quarter is new: {grown:?}");
        let new = nodes.pid_and_name(3).1;
        let new = grown.nodes.iter().find(|node| node.node == new);
        let new = new.expect("it is known");
        assert_eq!(
            (new.hits, new.misses),
            (0, moved),
            "all of what it has not yet, and nothing else: {grown:?}"
        );
        let again = read_again(&files, &named(&nodes, &[3, 2, 1, 0])).await;
        assert_eq!(row(&again, Tier::Origin).calls, 0, "it has it by now");

        // Blocks of the removed node move to the others; all other blocks stay.
        let gone = nodes.pid_and_name(0).1;
        let had = again.nodes.iter().find(|node| node.node == gone);
        let had = had.expect("it is known").hits;
        let shrunk = read_again(&files, &named(&nodes, &[1, 2, 3])).await;
        assert!(row(&shrunk, Tier::Origin).hits <= had, "{shrunk:?}");
        assert_eq!(
            row(&shrunk, Tier::Remote).hits + row(&shrunk, Tier::Origin).hits,
            FILES as u64
        );
    }
}
