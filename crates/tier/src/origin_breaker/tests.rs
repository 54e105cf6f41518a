//! The breaker of an origin, on a clock that stands still.

use std::sync::Arc;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn breaker() -> OriginBreaker {
    OriginBreaker::new(&Settings::default())
}

fn outage(path: &str) -> Error {
    let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
    Error::Origin {
        path: PathBuf::from(path),
        operation: "read",
        source: Arc::new(source),
    }
}

fn fails(breaker: &OriginBreaker, path: &str) {
    let pass = breaker.admit(Path::new(path)).expect("it is sent");
    pass.ended(Some(&outage(path)));
}

fn answers(breaker: &OriginBreaker, path: &str) {
    let pass = breaker.admit(Path::new(path)).expect("it is sent");
    pass.ended(None);
}

fn is_refused(breaker: &OriginBreaker, path: &str) -> bool {
    // Not sent: a pass that is a probe goes back.
    matches!(
        breaker.admit(Path::new(path)),
        Err(Error::Unanswered { .. })
    )
}

/// Lets all requests in a directory fail until it is refused.
async fn kill(breaker: &OriginBreaker, names: [&str; 4]) {
    for name in names {
        fails(breaker, name);
        tokio::time::advance(400 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dead_prefix_costs_its_own_readers_alone() {
    let breaker = breaker();
    answers(&breaker, "dead/a/1");
    kill(&breaker, ["dead/a/1", "dead/b/1", "dead/a/2", "dead/b/2"]).await;
    assert!(is_refused(&breaker, "dead/c/never asked"));
    assert!(!is_refused(&breaker, "alive/1") && !is_refused(&breaker, "dead.txt"));
    let mut totals = Totals::default();
    breaker.add_to(&mut totals);
    assert_eq!(
        (totals.origin_breaker_opened, totals.origin_refused),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn one_object_that_fails_is_refused_without_its_directory() {
    let breaker = breaker();
    kill(&breaker, ["d/bad"; 4]).await;
    fails(&breaker, "d/other");
    assert!(is_refused(&breaker, "d/bad"));
    // The second object makes it the directory.
    assert!(is_refused(&breaker, "d/third") && !is_refused(&breaker, "e/1"));
    let other = self::breaker();
    kill(&other, ["d/bad"; 4]).await;
    assert!(is_refused(&other, "d/bad") && !is_refused(&other, "d/other"));
}

#[tokio::test(start_paused = true)]
async fn answers_between_failures_keep_it_closed() {
    let breaker = breaker();
    for number in 0..20 {
        fails(&breaker, &format!("d/one {number}"));
        fails(&breaker, &format!("d/other {number}"));
        tokio::time::advance(400 * MS).await;
        answers(&breaker, "d/3");
    }
    assert!(!is_refused(&breaker, "d/4"));
    for _ in 0..20 {
        let missing = Error::NotFound {
            path: PathBuf::from("d/1"),
        };
        let pass = breaker.admit(Path::new("d/1")).expect("it is sent");
        pass.ended(Some(&missing));
        tokio::time::advance(400 * MS).await;
    }
    assert!(!is_refused(&breaker, "d/1"), "not found is an answer");
}

#[tokio::test(start_paused = true)]
async fn many_failures_within_a_moment_do_not_open_it() {
    let breaker = breaker();
    for number in 0..100 {
        fails(&breaker, &format!("d/{number}"));
    }
    assert!(!is_refused(&breaker, "d/1"));
}

#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time_closes_it_or_doubles_its_time() {
    let breaker = breaker();
    kill(&breaker, ["d/1", "d/2", "d/3", "d/4"]).await;
    let mut length = 500 * MS;
    for number in 0..6 {
        // The first 400 ms are over.
        let over = if number == 0 {
            400 * MS
        } else {
            Duration::ZERO
        };
        tokio::time::advance(length - over - MS).await;
        assert!(is_refused(&breaker, "d/1"), "{length:?}");
        tokio::time::advance(MS).await;
        let probe = breaker.admit(Path::new("d/1")).expect("its time is over");
        assert!(is_refused(&breaker, "d/1"), "one at a time");
        probe.ended(Some(&outage("d/1")));
        length = (length * 2).min(Duration::from_secs(5));
    }
    tokio::time::advance(length).await;
    drop(breaker.admit(Path::new("d/1")).expect("its time is over"));
    assert!(is_refused(&breaker, "d/1"), "a probe that was not sent");
    tokio::time::advance(length).await;
    answers(&breaker, "d/1");
    assert!(!is_refused(&breaker, "d/5"));
    assert!(
        breaker
            .0
            .scopes()
            .known
            .keys()
            .all(|name| name != Path::new("d")),
        "an answer leaves nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn origin_that_is_dead_as_a_whole_is_refused_as_a_whole() {
    let breaker = breaker();
    kill(&breaker, ["a/1", "b/1", "c/1", "d/1"]).await;
    assert!(is_refused(&breaker, "e/never asked") && is_refused(&breaker, ""));
    tokio::time::advance(500 * MS).await;
    answers(&breaker, "e/1");
    assert!(!is_refused(&breaker, "f/1"));
}

#[tokio::test(start_paused = true)]
async fn never_is_never() {
    let breaker = OriginBreaker::new(&Settings {
        origin_breaker: Duration::ZERO,
        ..Settings::default()
    });
    kill(&breaker, ["d/1", "d/2", "d/3", "d/4"]).await;
    assert!(!is_refused(&breaker, "d/1"));
}

#[tokio::test(start_paused = true)]
async fn failing_names_are_bounded() {
    let breaker = breaker();
    for number in 0..3 * MOST_SCOPES {
        answers(&breaker, "other");
        fails(&breaker, &format!("{number}/file"));
    }
    assert!(breaker.0.scopes().known.len() <= MOST_SCOPES + 2);
}
