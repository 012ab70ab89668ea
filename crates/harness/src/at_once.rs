//! Two packets at the same moment, on two workers of one native program (`strait test --fuzz N --workers 2`).
//!
//! Packets are played in rounds of two, which begin together on two threads. What leaves, why packets are dropped, and every counter must be what one
//! of the two orders gives on the interpreter: packets that meet are processed one after the other, in some order. An episode is some
//! rounds with the tables of a case; if no choice of orders explains it, that is a difference.
//!
//! The object is compiled with a pause between a lookup that misses and the entry that it adds, so that both packets of a round miss. A program that
//! takes an insertion which somebody else was faster with for a full table is found by that.

use std::collections::BTreeMap;

use dataplane::Count;
use interp::Interpreter;

use crate::fuzz::{CASES, Sums, Tally, counts, hex, mutated, shown, tables_of};
use crate::rng::Rng;
use crate::stf;
use crate::targets::Sent;
use crate::targets::native::{Object, Pair};

/// The rounds of an episode. All orders of them may have to be tried.
const ROUNDS: usize = 6;
/// The time that packets see, in microseconds.
const NOW: u64 = 1_000_000;

/// The two packets of a round, with their ports.
type Round = [(u32, Vec<u8>); 2];

/// What two workers did in an episode.
struct Episode<'a> {
    program: &'a ir::Verified,
    tables: &'a stf::Case,
    rounds: &'a [Round],
    seen: &'a [[Sent; 2]],
    counts: &'a BTreeMap<String, Count>,
}

/// Why a choice of orders does not explain an episode.
struct Differs {
    /// The round, or the number of rounds if the counters differ.
    round: usize,
    why: String,
}

/// Plays about `packets` packets on two workers.
pub fn run(program: &ir::Verified, cases: &[stf::Case], packets: u64, seed: u64) -> anyhow::Result<Tally> {
    let object = Object::racing(program)?;
    let mut pair = Pair::new()?;
    let step = cases.len().div_ceil(CASES).max(1);
    let chosen: Vec<_> = cases.iter().step_by(step).filter(|case| case.packets().next().is_some()).collect();
    anyhow::ensure!(!chosen.is_empty(), "no case has packets");
    let each = packets.div_ceil((2 * ROUNDS * chosen.len()) as u64);
    let (mut rng, mut tally) = (Rng::new(seed), Tally::default());
    for case in chosen {
        let tables = tables_of(case);
        for _ in 0..each {
            let rounds = rounds(case, &mut rng);
            episode(program, &object, &mut pair, (&case.name, &tables), &rounds, &mut tally)?;
        }
    }
    Ok(tally)
}

/// The packets of a case in their order, with another one beside each: the same, one that differs a little, or another one of the case.
fn rounds(case: &stf::Case, rng: &mut Rng) -> Vec<Round> {
    let all: Vec<_> = case.packets().map(|(port, bytes)| (port, bytes.to_vec())).collect();
    let first = rng.index(all.len());
    let of = |at: usize| all[(first + at) % all.len()].clone();
    let round = |at: usize| {
        let one = of(at);
        let other = match rng.index(4) {
            0 | 1 => one.clone(),
            2 => (one.0, mutated(&one.1, rng)),
            _ => of(rng.index(all.len())),
        };
        if rng.index(2) == 0 { [one, other] } else { [other, one] }
    };
    (0..ROUNDS).map(round).collect()
}

fn episode(
    program: &ir::Verified,
    object: &Object,
    pair: &mut Pair,
    (name, tables): (&str, &stf::Case),
    rounds: &[Round],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let native = object.load()?;
    let mut memory = native.memory().clone();
    let report = stf::load(tables, &mut memory);
    anyhow::ensure!(report.passed, "{}", report.text());
    memory.set_clock(NOW);
    let seen = pair.play(&native, NOW, rounds);
    let counts = counts(&mut memory)?;
    tally.cells += counts.len() as u64;
    let episode = Episode { program, tables, rounds, seen: &seen, counts: &counts };
    match episode.explained()? {
        Ok(()) => tally.equal += 2 * rounds.len() as u64,
        Err(differs) => {
            tally.different += 1;
            if tally.different <= 5 {
                tally.shown.push(episode.text(name, &differs));
            }
        }
    }
    Ok(())
}

impl Episode<'_> {
    /// Looks for the order in each round that explains what was seen. The error is how far the best choice came.
    fn explained(&self) -> anyhow::Result<Result<(), Differs>> {
        let mut best: Option<Differs> = None;
        let mut turned = vec![false; self.rounds.len()];
        loop {
            let Some(differs) = self.differs(&turned)? else { return Ok(Ok(())) };
            // The last round up to the one that differs whose other order was not tried is turned.
            let tried = differs.round.min(self.rounds.len() - 1);
            if best.as_ref().is_none_or(|best| best.round <= differs.round) {
                best = Some(differs);
            }
            let Some(last) = turned[..=tried].iter().rposition(|turned| !turned) else { break };
            turned[last] = true;
            turned[last + 1..].fill(false);
        }
        Ok(best.map_or(Ok(()), Err))
    }

    /// Plays the episode on the interpreter. In a round that is turned, the second packet comes first.
    fn differs(&self, turned: &[bool]) -> anyhow::Result<Option<Differs>> {
        let mut oracle = Interpreter::new(self.program)?;
        oracle.carry_wrong_sums();
        let report = stf::load(self.tables, &mut oracle);
        anyhow::ensure!(report.passed, "{}", report.text());
        oracle.set_clock(NOW);
        for (round, (packets, seen)) in self.rounds.iter().zip(self.seen).enumerate() {
            let order = if turned[round] { [1, 0] } else { [0, 1] };
            for at in order {
                let ((port, packet), seen) = (&packets[at], &seen[at]);
                let mut sums = Sums::default();
                let outcome = oracle.process(*port, packet, &mut sums);
                let expected = Sent::expected(outcome, oracle.manifest(), Some(seen));
                if *seen != expected && !(sums.wrong && seen.same_but_for_zeros(&expected)) {
                    let why = format!(
                        "  one after the other {}\n  at once             {}",
                        shown(&expected),
                        shown(seen)
                    );
                    return Ok(Some(Differs { round, why }));
                }
            }
        }
        let mut expected = counts(&mut oracle)?;
        expected.retain(|name, _| !name.starts_with("entry ") || self.counts.contains_key(name));
        let of = |counts: &BTreeMap<String, Count>, name: &str| counts.get(name).copied().unwrap_or_default();
        let wrong = expected
            .keys()
            .chain(self.counts.keys())
            .find(|name| of(&expected, name) != of(self.counts, name));
        Ok(wrong.map(|name| Differs {
            round: self.rounds.len(),
            why: format!(
                "  {name}: one after the other {:?}, at once {:?}",
                of(&expected, name),
                of(self.counts, name)
            ),
        }))
    }

    fn text(&self, name: &str, differs: &Differs) -> String {
        let round = self.rounds.get(differs.round).map_or("the counters".to_string(), |round| {
            let packets = round.iter().map(|(port, bytes)| format!("\n  port {port}, packet {}", hex(bytes)));
            format!("round {} of{}", differs.round, packets.collect::<String>())
        });
        format!("{name}: no order gives {round}\n{}", differs.why)
    }
}
