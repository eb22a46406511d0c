//! The circles that functions make with one another: which calls, and which jumps between functions, must be
//! counted.
//!
//! The calls of the file are walked from those functions that nobody calls, each function once, and an edge
//! that leads to a function which is still on the way to where the walk stands closes a circle. All such
//! edges are counted, and then no circle is left. Which direction a call has in memory plays no part, since
//! any call can be counted; walking from the top finds the edges that really recurse, where "backward calls
//! within a circle of calls" would be half of all calls in it.
//!
//! Jumps that cross from one function to another are edges like calls (the cold half of a function and its
//! hot half make a circle; the jump back is the one that is found).
//!
//! Calls through pointers and into other files are not seen. To take them as leading everywhere would put
//! nearly all functions of a program on one circle, and the count of the direct calls of it would still not
//! break those which consist of calls through pointers alone. So they are left out, and what that means is
//! said in the module above.

use super::survey::Edge;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// The walk is below it.
    Open,
    Done,
}

/// For each edge, whether it is to be counted. `edges` are in the order of the functions that they start
/// from; functions have numbers below `functions`.
pub(super) fn closing(edges: &[Edge], functions: usize) -> Vec<bool> {
    let mut first = vec![0_u32; functions + 1];
    let mut called = vec![false; functions];
    for edge in edges {
        first[edge.candidate.region as usize + 1] += 1;
        if edge.candidate.region != edge.to {
            called[edge.to as usize] = true;
        }
    }
    for function in 0..functions {
        first[function + 1] += first[function];
    }
    let mut closes = vec![false; edges.len()];
    let mut states = vec![State::New; functions];
    // Of each function on the way, the next of its edges.
    let mut way: Vec<(u32, u32)> = Vec::new();
    let tops = (0..functions).filter(|function| !called[*function]);
    for top in tops.chain(0..functions) {
        if states[top] != State::New {
            continue;
        }
        states[top] = State::Open;
        way.push((top as u32, first[top]));
        while let Some((function, next)) = way.last_mut() {
            let (edge, number) = (*next as usize, *function as usize);
            if edge == first[number + 1] as usize {
                states[number] = State::Done;
                way.pop();
                continue;
            }
            *next += 1;
            let to = edges[edge].to as usize;
            match states[to] {
                State::Open => closes[edge] = true,
                State::Done => {}
                State::New => {
                    states[to] = State::Open;
                    way.push((to as u32, first[to]));
                }
            }
        }
    }
    closes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dense::survey::{Candidate, What};

    fn edges(pairs: &[(u32, u32)]) -> Vec<Edge> {
        let mut pairs = pairs.to_vec();
        pairs.sort_unstable();
        let edge = |(region, to)| Edge {
            candidate: Candidate { at: 0, target: 0, region, len: 5, what: What::Call },
            to,
        };
        pairs.into_iter().map(edge).collect()
    }

    #[test]
    fn a_recursion_from_the_top_is_one_edge() {
        // 0 calls 3, 3 calls 1, 1 calls 2 and 3: what leads back is 1 -> 3.
        let edges = edges(&[(0, 3), (3, 1), (1, 2), (1, 3)]);
        let closes = closing(&edges, 4);
        let found: Vec<(u32, u32)> = edges
            .iter()
            .zip(&closes)
            .filter(|(_, closes)| **closes)
            .map(|(edge, _)| (edge.candidate.region, edge.to))
            .collect();
        assert_eq!(found, [(1, 3)]);
    }

    proptest! {
        #[test]
        fn no_circle_is_left(pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..40)) {
            let edges = edges(&pairs);
            let closes = closing(&edges, 12);
            // Without the counted edges, functions can be taken away one after the other, each with no edge
            // to one left.
            let mut left: Vec<u32> = (0..12).collect();
            let open: Vec<(u32, u32)> = edges
                .iter()
                .zip(&closes)
                .filter(|(_, closes)| !**closes)
                .map(|(edge, _)| (edge.candidate.region, edge.to))
                .collect();
            while let Some(at) = left
                .iter()
                .position(|one| !open.iter().any(|(from, to)| from == one && left.contains(to)))
            {
                left.remove(at);
            }
            prop_assert!(left.is_empty());
            // And none is counted in vain where there is no circle at all.
            if pairs.iter().all(|(from, to)| from < to) {
                prop_assert!(!closes.contains(&true));
            }
        }
    }
}
