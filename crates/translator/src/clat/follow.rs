//! Follows what a CLAT depends on as long as `run` runs: the uplink, what its routers advertise, what resolvers answer, and addresses.

use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use io::link::Handle;
use io::routers::Routers;
use ipnet::Ipv6Net;
use nat64::discovery::{Action, Discovery, Event, Known, Origin};
use nat64::pref64::{self, Answer};
use nat64::{Clat, Config, Found};

use super::{dns, place};

/// The uplink as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Uplink {
    name: String,
    index: u32,
}

/// What is followed.
pub struct Follower {
    clat: Clat,
    device: String,
    /// The prefix of the file, which needs no discovery.
    given: Option<Ipv6Net>,
    begun: Instant,
    discovery: Discovery,
    uplink: Option<Uplink>,
    routers: Option<Routers>,
    asked: Option<Receiver<Result<(IpAddr, Answer), String>>>,
    /// What another process, or this one with another file, has found.
    before: Option<Found>,
    /// When the current prefix ends, by the machine's clock, and what that was computed from.
    until: Option<(Known, u64)>,
    /// Why nothing is translated, or what failed last.
    trouble: Option<String>,
}

impl Follower {
    /// Begins to follow what a configuration needs; `None` if it needs nothing. What was found before counts as long as it is valid.
    pub fn new(config: &Config, before: Option<Found>) -> Option<Self> {
        let clat = config.clat.as_ref()?;
        Some(Self {
            clat: Clat { found: None, ..clat.clone() },
            device: crate::configured::device(config).to_string(),
            given: config.prefix,
            begun: Instant::now(),
            discovery: Discovery::default(),
            uplink: None,
            routers: None,
            asked: None,
            before,
            until: None,
            trouble: None,
        })
    }

    /// What becomes readable when something arrives.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.routers.as_ref().map(|routers| routers.as_fd())
    }

    /// When [`Follower::turn`] is due, if nothing arrives before.
    pub fn deadline(&self) -> Option<Instant> {
        self.discovery.deadline().map(|at| self.begun + at)
    }

    /// Why nothing is translated.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Takes what has arrived, sends what is due, and returns what a translator is made from now; `None` if there is no prefix, or no uplink.
    pub fn turn(&mut self, links: &Handle) -> Option<Found> {
        self.look(links);
        self.discover();
        let known = match self.given {
            Some(prefix) => Some((prefix, Origin::File, None)),
            None => self.known(),
        };
        let Some((prefix, origin, until)) = known else {
            if self.uplink.is_some() && self.trouble.is_none() {
                self.trouble = Some("the network has told no prefix yet".into());
            }
            return None;
        };
        match place::find(&self.clat, &self.device, prefix, origin, until, links) {
            Ok(found) => {
                self.trouble = None;
                Some(found)
            }
            Err(error) => {
                self.trouble = Some(abi::text::chain(&*error));
                None
            }
        }
    }

    /// Looks where the uplink is. Another one is another network, and so is one that was down.
    fn look(&mut self, links: &Handle) {
        let name = match &self.clat.uplink {
            Some(name) => Some(name.clone()),
            None => place::uplink(None, &self.device, links).ok().flatten(),
        };
        let link = name.and_then(|name| links.link(&name).ok().flatten());
        let now = link
            .filter(|link| link.up && link.carrier)
            .map(|link| Uplink { name: link.name, index: link.index });
        if now == self.uplink {
            return;
        }
        (self.routers, self.asked, self.until) = (None, None, None);
        self.discovery = Discovery::default();
        self.trouble = Some(match (&now, &self.clat.uplink) {
            (Some(_), _) => "the network has told no prefix yet".into(),
            (None, Some(name)) => format!("the uplink `{name}` does not exist or is down"),
            (None, None) => "there is no IPv6 default route, and `uplink` names no interface".into(),
        });
        if let (Some(uplink), None) = (&now, self.given) {
            match Routers::open(&uplink.name) {
                Ok(routers) => self.routers = Some(routers),
                Err(error) => {
                    self.trouble = Some(error.to_string());
                    return;
                }
            }
            self.act(Event::Link);
            self.resume(&uplink.name.clone());
        }
        self.uplink = now;
    }

    /// Takes over what was found before on the same uplink.
    fn resume(&mut self, uplink: &str) {
        let Some(found) = self.before.take().filter(|found| found.uplink == uplink) else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let left = found.until.unwrap_or(0).saturating_sub(now);
        if left > 0 {
            let until = self.begun.elapsed() + Duration::from_secs(left);
            self.discovery.resume(Known { prefix: found.prefix, origin: found.origin, until });
        }
    }

    fn discover(&mut self) {
        if self.routers.is_none() {
            return;
        }
        while let Some(routers) = &self.routers {
            match routers.next() {
                Ok(Some((router, message))) => {
                    if let Some(prefixes) = pref64::advertised(&message) {
                        self.act(Event::Advertised(router, prefixes));
                    }
                }
                // An interface that goes away is noticed by `look`.
                Ok(None) | Err(_) => break,
            }
        }
        match self.asked.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(Ok((resolver, answer)))) => {
                self.asked = None;
                self.act(Event::Answered(resolver, answer));
            }
            Some(Ok(Err(why))) => {
                self.asked = None;
                self.trouble = Some(format!("routers advertise no prefix, and no resolver tells one: {why}"));
                self.act(Event::Unanswered);
            }
            Some(Err(TryRecvError::Disconnected)) => {
                self.asked = None;
                self.act(Event::Unanswered);
            }
        }
        self.act(Event::Time);
    }

    fn act(&mut self, event: Event) {
        for action in self.discovery.step(self.begun.elapsed(), event) {
            match (action, &self.routers) {
                // It fails as long as duplicate address detection goes on; the next one is due soon.
                (Action::Solicit, Some(routers)) => drop(routers.solicit()),
                (Action::Solicit, None) => {}
                (Action::Ask, _) => {
                    let (sender, receiver) = channel();
                    let resolvers = self.clat.dns.clone();
                    std::thread::spawn(move || sender.send(dns::ask(&resolvers)));
                    self.asked = Some(receiver);
                }
            }
        }
    }

    /// What discovery knows, with its end as a time of the machine's clock.
    fn known(&mut self) -> Option<(Ipv6Net, Origin, Option<u64>)> {
        let known = self.discovery.current()?;
        let until = match self.until {
            Some((before, until)) if before == known => until,
            _ => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
                (now + known.until.saturating_sub(self.begun.elapsed())).as_secs()
            }
        };
        self.until = Some((known, until));
        Some((known.prefix, known.origin, Some(until)))
    }
}
