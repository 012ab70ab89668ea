//! Which translation prefix a network has, as time goes on: router advertisements first (RFC 8781), the DNS as a fallback (RFC 7050).
//!
//! A state machine without sockets and clock: events and the time go in, actions come out.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use super::pref64::{Answer, Pref64};

/// Where a prefix comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The configuration file.
    File,
    /// The advertisements of this router.
    Router(Ipv6Addr),
    /// The answers of this resolver.
    Dns(IpAddr),
}

/// A prefix that is valid now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The network's translation prefix.
    pub prefix: Ipv6Net,
    /// Where it comes from.
    pub origin: Origin,
    /// When it ends to be valid.
    pub until: Duration,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link is up, or another one took its place: what was known is of the past, and so are questions without an answer.
    Link,
    /// A router has advertised these prefixes, or none.
    Advertised(Ipv6Addr, Vec<Pref64>),
    /// A resolver has answered.
    Answered(IpAddr, Answer),
    /// No resolver has answered.
    Unanswered,
    /// Time has passed.
    Time,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a router solicitation.
    Solicit,
    /// Ask the resolvers.
    Ask,
}

/// The interval of solicitations, and their number (RFC 4861 section 10).
const SOLICIT_EVERY: Duration = Duration::from_secs(4);
const SOLICITATIONS: u8 = 3;
/// The question is asked again this long before the answer ends to be valid (RFC 7050 section 3), but not more often than this.
const ASK_BEFORE: Duration = Duration::from_secs(10);
/// The time until resolvers that did not answer are asked again. It doubles with each failure.
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MOST: Duration = Duration::from_secs(64);
/// The time until a resolver that does no DNS64 is asked again, if its answer does not count for longer.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// More prefixes of routers are not remembered, so that nobody on the link can fill the memory.
const OFFERS: usize = 16;

/// A prefix that a router offers.
#[derive(Debug)]
struct Offer {
    known: Known,
    /// Whether the router's last advertisement with prefixes had others only: it has probably changed its prefix without withdrawing this one.
    left_out: bool,
}

/// What is known.
#[derive(Debug, Default)]
pub struct Discovery {
    /// What routers offer, the oldest first.
    offers: Vec<Offer>,
    /// What resolvers said.
    answers: Vec<Known>,
    current: Option<Known>,
    solicited: u8,
    solicit_at: Option<Duration>,
    ask_at: Option<Duration>,
    /// Whether resolvers were asked, and have not answered yet.
    asking: bool,
    retry: Duration,
}

impl Discovery {
    /// The prefix that counts now.
    pub fn current(&self) -> Option<Known> {
        self.current
    }

    /// Takes over what was known before this process began, or before it read its file again.
    pub fn resume(&mut self, known: Known) {
        match known.origin {
            Origin::File => {}
            Origin::Router(_) => self.offers.push(Offer { known, left_out: false }),
            Origin::Dns(_) => self.answers.push(known),
        }
        self.choose();
    }

    /// When [`Event::Time`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        let ends = self.offers.iter().map(|offer| &offer.known).chain(&self.answers).map(|known| known.until);
        ends.chain(self.solicit_at).chain(self.ask_at.filter(|_| !self.asking)).min()
    }

    /// Says what to do about an event.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Action> {
        let had_offers = !self.offers.is_empty();
        let had_answers = !self.answers.is_empty();
        match event {
            Event::Link => {
                *self = Self { retry: RETRY, solicit_at: Some(now), ..Self::default() };
                return self.due(now);
            }
            Event::Advertised(router, prefixes) => self.advertised(now, router, prefixes),
            Event::Answered(resolver, answer) => self.answered(now, resolver, answer),
            Event::Unanswered => {
                self.asking = false;
                self.ask_at = Some(now + self.retry);
                self.retry = (self.retry * 2).min(RETRY_MOST);
            }
            Event::Time => {}
        }
        self.offers.retain(|offer| offer.known.until > now);
        self.answers.retain(|known| known.until > now);
        if had_offers && self.offers.is_empty() {
            // The routers may have another prefix.
            (self.solicited, self.solicit_at) = (0, Some(now));
            self.ask_at = Some(now);
        }
        if had_answers && self.answers.is_empty() && self.offers.is_empty() {
            self.ask_at = Some(self.ask_at.map_or(now, |at| at.max(now)));
        }
        self.choose();
        self.due(now)
    }

    fn advertised(&mut self, now: Duration, router: Ipv6Addr, prefixes: Vec<Pref64>) {
        // A router that answers needs no further solicitation.
        self.solicit_at = None;
        let origin = Origin::Router(router);
        if prefixes.iter().any(|new| new.lifetime > 0) {
            for offer in self.offers.iter_mut().filter(|offer| offer.known.origin == origin) {
                offer.left_out = prefixes.iter().all(|new| new.prefix != offer.known.prefix);
            }
        }
        for Pref64 { prefix, lifetime } in prefixes {
            let until = now + Duration::from_secs(lifetime.into());
            let room = self.offers.len() < OFFERS;
            match self.offers.iter_mut().find(|o| (o.known.origin, o.known.prefix) == (origin, prefix)) {
                // A lifetime of zero ends it.
                Some(offer) => offer.known.until = until,
                None if lifetime > 0 && room => {
                    self.offers.push(Offer { known: Known { prefix, origin, until }, left_out: false });
                }
                None => {}
            }
        }
        if self.offers.is_empty() && self.answers.is_empty() && self.ask_at.is_none() && !self.asking {
            self.ask_at = Some(now);
        } else if self.offers.iter().any(|offer| offer.known.until > now) {
            self.ask_at = None;
        }
    }

    fn answered(&mut self, now: Duration, resolver: IpAddr, answer: Answer) {
        (self.asking, self.retry) = (false, RETRY);
        let origin = Origin::Dns(resolver);
        let again = Duration::from_secs(answer.ttl.into()).saturating_sub(ASK_BEFORE).max(ASK_BEFORE);
        let until = now + Duration::from_secs(answer.ttl.into()).max(ASK_BEFORE + RETRY);
        self.answers = answer.prefixes.into_iter().map(|prefix| Known { prefix, origin, until }).collect();
        self.ask_at = match (self.offers.is_empty(), self.answers.is_empty()) {
            (false, _) => None,
            (true, true) => Some(now + ASK_AGAIN.max(Duration::from_secs(answer.ttl.into()))),
            (true, false) => Some(now + again),
        };
    }

    /// A prefix that routers still advertise stays: connections depend on it. Otherwise the first one that they advertise counts, then one that
    /// they have left out of late, then those of the DNS.
    fn choose(&mut self) {
        let offers = |left_out| {
            let some = self.offers.iter().filter(move |offer| offer.left_out == left_out);
            some.map(|offer| offer.known).collect::<Vec<_>>()
        };
        let sources = [offers(false), offers(true), self.answers.clone()];
        let Some(from) = sources.iter().find(|known| !known.is_empty()) else {
            self.current = None;
            return;
        };
        let same = |known: &&Known| self.current.is_some_and(|c| c.prefix == known.prefix);
        let by_same = |known: &&Known| {
            self.current.is_some_and(|c| (c.prefix, c.origin) == (known.prefix, known.origin))
        };
        self.current = from.iter().find(by_same).or(from.iter().find(same)).or(from.first()).copied();
    }

    fn due(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.solicit_at.is_some_and(|at| at <= now) {
            if self.solicited < SOLICITATIONS {
                actions.push(Action::Solicit);
                self.solicited += 1;
                self.solicit_at = Some(now + SOLICIT_EVERY);
            } else {
                self.solicit_at = None;
                // No router tells a prefix.
                if self.offers.is_empty() && self.ask_at.is_none() && !self.asking {
                    self.ask_at = Some(now);
                }
            }
        }
        if self.ask_at.is_some_and(|at| at <= now) && !self.asking {
            self.asking = true;
            actions.push(Action::Ask);
            // The answer, or that there is none, sets the next time.
            self.ask_at = None;
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "2001:db8:64::/96";
    const B: &str = "2001:db8:46::/96";

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn router(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n)
    }

    fn advertised(n: u16, prefixes: &[(&str, u32)]) -> Event {
        let prefixes = prefixes.iter().map(|(prefix, lifetime)| Pref64 {
            prefix: prefix.parse().expect("a prefix"),
            lifetime: *lifetime,
        });
        Event::Advertised(router(n), prefixes.collect())
    }

    fn answered(prefixes: &[&str], ttl: u32) -> Event {
        let prefixes = prefixes.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
        Event::Answered("2001:db8::53".parse().expect("an address"), Answer { prefixes, ttl })
    }

    /// Each row has: the time in seconds, an event, the actions, and the prefix that counts afterwards.
    fn check(rows: &[(u64, Event, &[Action], Option<&str>)]) -> Discovery {
        let mut discovery = Discovery::default();
        for (at, event, actions, prefix) in rows {
            assert_eq!(discovery.step(seconds(*at), event.clone()), *actions, "{at} s, {event:?}");
            let current = discovery.current().map(|known| known.prefix.to_string());
            assert_eq!(current.as_deref(), *prefix, "{at} s, {event:?}");
        }
        discovery
    }

    #[test]
    fn without_routers_the_dns_is_asked() {
        use Action::{Ask, Solicit};
        let discovery = check(&[
            (0, Event::Link, &[Solicit], None),
            (4, Event::Time, &[Solicit], None),
            (8, Event::Time, &[Solicit], None),
            (12, Event::Time, &[Ask], None),
            (13, Event::Unanswered, &[], None),
            (15, Event::Time, &[Ask], None),
            (16, Event::Unanswered, &[], None),
            (19, Event::Time, &[], None),
            (20, Event::Time, &[Ask], None),
            (20, answered(&[A, B], 300), &[], Some(A)),
            (309, Event::Time, &[], Some(A)),
            // Ten seconds before it ends (RFC 7050 section 3).
            (310, Event::Time, &[Ask], Some(A)),
            (310, answered(&[B], 300), &[], Some(B)),
            (600, Event::Time, &[Ask], Some(B)),
            (605, Event::Unanswered, &[], Some(B)),
            (607, Event::Time, &[Ask], Some(B)),
            (609, Event::Unanswered, &[], Some(B)),
            (610, Event::Time, &[], None),
        ]);
        assert_eq!(discovery.deadline(), Some(seconds(613)));
    }

    #[test]
    fn a_router_that_advertises_a_prefix_comes_before_the_dns() {
        use Action::{Ask, Solicit};
        check(&[
            (0, Event::Link, &[Solicit], None),
            // This one has no prefix.
            (1, advertised(1, &[]), &[Ask], None),
            (2, answered(&[A], 3600), &[], Some(A)),
            (100, advertised(2, &[(B, 1800)]), &[], Some(B)),
            // One that says nothing changes nothing.
            (200, advertised(2, &[]), &[], Some(B)),
            (1899, Event::Time, &[], Some(B)),
            (1900, Event::Time, &[Solicit, Ask], Some(A)),
        ]);
    }

    #[test]
    fn a_prefix_stays_while_one_of_the_routers_offers_it() {
        use Action::{Ask, Solicit};
        check(&[
            (0, Event::Link, &[Solicit], None),
            (1, advertised(1, &[(A, 600), (B, 600)]), &[], Some(A)),
            (2, advertised(2, &[(B, 1200)]), &[], Some(A)),
            (3, advertised(3, &[(A, 900)]), &[], Some(A)),
            (601, Event::Time, &[], Some(A)),
            (700, advertised(3, &[(A, 0)]), &[], Some(B)),
            (701, advertised(1, &[(A, 600)]), &[], Some(B)),
            (702, advertised(2, &[(B, 0)]), &[], Some(A)),
            (703, advertised(1, &[(A, 0)]), &[Solicit, Ask], None),
        ]);
    }

    #[test]
    fn a_router_that_advertises_another_prefix_has_changed_it() {
        use Action::Solicit;
        check(&[
            (0, Event::Link, &[Solicit], None),
            (1, advertised(1, &[(A, 600)]), &[], Some(A)),
            (2, advertised(1, &[(B, 600)]), &[], Some(B)),
            (3, advertised(1, &[]), &[], Some(B)),
            // What it withdraws says nothing of the other one, which it has not withdrawn.
            (4, advertised(1, &[(B, 0)]), &[], Some(A)),
            (5, advertised(1, &[(B, 600), (A, 600)]), &[], Some(A)),
            // Another router has the other one still.
            (6, advertised(2, &[(A, 600)]), &[], Some(A)),
            (7, advertised(1, &[(B, 600)]), &[], Some(A)),
        ]);
    }

    #[test]
    fn another_link_begins_anew() {
        use Action::Solicit;
        check(&[
            (0, Event::Link, &[Solicit], None),
            (1, advertised(1, &[(A, 600)]), &[], Some(A)),
            (2, Event::Link, &[Solicit], None),
            (3, advertised(9, &[(B, 600)]), &[], Some(B)),
        ]);
    }

    #[test]
    fn what_was_known_before_counts_until_it_ends() {
        use Action::{Ask, Solicit};
        let mut discovery = Discovery::default();
        assert_eq!(discovery.step(seconds(0), Event::Link), [Solicit]);
        let prefix = A.parse().expect("a prefix");
        discovery.resume(Known { prefix, origin: Origin::Router(router(1)), until: seconds(3) });
        assert_eq!(discovery.current().map(|known| known.prefix), Some(prefix));
        assert_eq!(discovery.step(seconds(3), Event::Time), [Solicit, Ask]);
        assert_eq!(discovery.current(), None);
    }

    #[test]
    fn nobody_can_fill_the_memory() {
        let mut discovery = Discovery::default();
        for n in 0..1000 {
            discovery.step(seconds(1), advertised(n, &[(A, 600)]));
        }
        assert_eq!(discovery.offers.len(), OFFERS);
    }

    #[test]
    fn a_resolver_without_dns64_is_asked_again_when_its_answer_ends() {
        use Action::{Ask, Solicit};
        check(&[
            (0, Event::Link, &[Solicit], None),
            (1, advertised(1, &[]), &[Ask], None),
            (2, answered(&[], 0), &[], None),
            (3, advertised(1, &[]), &[], None),
            (61, Event::Time, &[], None),
            (62, Event::Time, &[Ask], None),
            // A negative answer counts for its TTL (RFC 7050 section 3).
            (63, answered(&[], 900), &[], None),
            (962, Event::Time, &[], None),
            (963, Event::Time, &[Ask], None),
        ]);
    }
}
