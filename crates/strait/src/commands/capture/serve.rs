//! The side of a run: it takes requests to look at its packets. While there is none, a thread waits in `accept`.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use dataplane::Device;
use io::local::{Listener, Place};

use super::link::{Kind, Request, send};
use super::{replay, session};
use crate::commands::run::machine::Machine;
use abi::text::chain;

/// The time until connections are taken again after none could be taken.
const RETRY: Duration = Duration::from_secs(1);

/// What other threads ask of the loop of a run, which alone has the machine.
pub enum Ask {
    /// The run shall end.
    Stop,
    /// The loop shall do something with the machine between two turns.
    Act(Act),
}

/// Something that is done with the machine.
type Act = Box<dyn FnOnce(&mut dyn Machine) + Send>;

/// Asks the loop of a run.
#[derive(Clone)]
pub struct Asker(Sender<Ask>);

impl Asker {
    /// An asker, and what it asks.
    pub fn new() -> (Asker, Receiver<Ask>) {
        let (send, asked) = channel();
        (Asker(send), asked)
    }

    /// Asks the run to end.
    pub fn stop(&self) {
        let _ = self.0.send(Ask::Stop);
    }

    /// Does something with the machine, and waits for the result.
    pub fn of_machine<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut dyn Machine) -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let (give, take) = channel();
        let act = move |machine: &mut dyn Machine| drop(give.send(act(machine)));
        let ended = "the switch ends";
        self.0.send(Ask::Act(Box::new(act))).ok().context(ended)?;
        take.recv().context(ended)
    }

    /// Does something with the running program.
    pub fn of_device<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut dyn Device) -> R + Send + 'static,
    ) -> anyhow::Result<R> {
        let done = self.of_machine(|machine| machine.running().map(act))?;
        done.context("no program runs yet")
    }
}

/// What a session must know of a run.
#[derive(Clone)]
pub struct Run {
    pub ask: Asker,
    /// The ports with their interfaces or drivers, the controller's among them.
    pub ports: Vec<(u32, String)>,
    pub target: replay::Target,
}

/// Takes requests from now on, until the value is dropped. `None` if that is impossible, after saying why.
pub fn start(run: Run) -> Option<Place> {
    let (listener, place) = match Listener::open() {
        Ok(opened) => opened,
        Err(why) => {
            eprintln!("note: `strait capture` and `strait trace --live` cannot reach this run: {why}");
            return None;
        }
    };
    let spawned =
        std::thread::Builder::new().name("watched".to_string()).spawn(move || accept(&listener, &run));
    spawned.ok().map(|_| place)
}

fn accept(listener: &Listener, run: &Run) {
    let busy = Arc::new(AtomicBool::new(false));
    loop {
        // It fails while the process has no file descriptor left, for example, and works again later.
        let Ok(stream) = listener.accept() else {
            std::thread::sleep(RETRY);
            continue;
        };
        let (run, busy) = (run.clone(), busy.clone());
        // A thread that cannot start closes the connection, which the command reports.
        let _ = std::thread::Builder::new()
            .name("watcher".to_string())
            .spawn(move || answer(stream, &run, &busy));
    }
}

/// Answers one command. A second one at the same time is refused, so that the cost stays bounded.
fn answer(mut stream: UnixStream, run: &Run, busy: &AtomicBool) {
    let result = match Request::receive(&stream) {
        Ok(None) => return,
        Ok(Some(_)) if busy.swap(true, Ordering::AcqRel) => {
            Err(anyhow::anyhow!("another command watches this switch already"))
        }
        Ok(Some(request)) => {
            let _busy = Busy(busy);
            session::run(&stream, run, &request)
        }
        Err(why) => Err(why),
    };
    // The command may have gone.
    let _ = match result {
        Ok(()) => send(&mut stream, Kind::End, &[]),
        Err(why) => send(&mut stream, Kind::Failed, chain(&*why).as_bytes()),
    };
}

/// The switch is watched until this is dropped, also if the session panics.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
