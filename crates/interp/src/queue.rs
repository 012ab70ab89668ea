//! The queues in front of egress: packets wait there for ports that have a rate.

use std::collections::BTreeMap;

use abi::drops;
use dataplane::queue::{Queue, QueueCounts, Shape, Wait};
use ir::pipeline::Input;

use crate::event::{Observer, Silent};
use crate::machine::{Interpreter, Job, Outcome, Run};
use crate::packet::PacketState;
use crate::pipeline::Destination;

/// The queue of each port that has a rate.
pub(crate) type Queues = BTreeMap<u32, Queue<Job>>;

impl Interpreter<'_> {
    /// Puts a queue in front of a port's egress.
    pub fn set_queue(&mut self, port: u32, shape: Shape) {
        self.queues.insert(port, Queue::new(shape));
    }

    /// Lets the packets leave their queues whose time has come. The caller has set the clock.
    pub fn dequeue(&mut self, observer: &mut dyn Observer) -> Outcome {
        let mut outcome = Outcome::default();
        let ports: Vec<u32> = self.queues.keys().copied().collect();
        for port in ports {
            while let Some((job, wait)) = self.queues.get_mut(&port).and_then(|queue| queue.pop(self.clock)) {
                self.resume(job, wait, observer, &mut outcome);
            }
        }
        outcome
    }

    /// Lets all packets leave their queues. One that comes back to a queue does not wait any more.
    pub fn drain(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut queues = std::mem::take(&mut self.queues);
        for queue in queues.values_mut() {
            while let Some((job, wait)) = queue.take(self.clock) {
                self.resume(job, wait, &mut Silent, &mut outcome);
            }
        }
        self.queues = queues;
        outcome
    }

    /// Takes over the queues of a program that this one replaces. What waits there leaves as the old program lets it, and is sent with the packets of
    /// [`Interpreter::take_injected`].
    pub fn take_over(&mut self, old: &mut Interpreter<'_>) {
        self.injected.extend(old.drain().sent);
        self.injected.append(&mut old.injected);
        self.queues = std::mem::take(&mut old.queues);
    }

    /// When the next packet leaves a queue, in microseconds.
    pub fn next_from_queues(&self) -> Option<u64> {
        self.queues.values().filter_map(Queue::next).min()
    }

    /// What the queues have counted, by the numbers of their ports.
    pub fn queue_counts(&self) -> BTreeMap<u32, QueueCounts> {
        self.queues.iter().map(|(port, queue)| (*port, queue.counts())).collect()
    }

    fn resume(&mut self, job: Job, wait: Wait, observer: &mut dyn Observer, outcome: &mut Outcome) {
        let resumed = self.run(observer, |run| run.resume(job, wait));
        outcome.sent.extend(resumed.sent);
        outcome.dropped.extend(resumed.dropped);
    }
}

impl Run<'_, '_> {
    /// Lets a packet wait if its port has a queue in front of the stage; otherwise it is returned. A packet that finds the queue full is dropped.
    pub(crate) fn unless_queued(&mut self, job: Job) -> Option<Job> {
        if !self.program.pipeline.stage(job.stage).queued {
            return Some(job);
        }
        let Some(queue) = self.queues.get_mut(&job.port) else { return Some(job) };
        let bytes = job.state.data.len() as u64;
        if let Err(job) = queue.push(self.clock, bytes, job) {
            self.s = job.state;
            self.dropped(drops::QUEUE_FULL);
        }
        None
    }

    /// Continues with a packet that has left its queue.
    fn resume(&mut self, job: Job, wait: Wait) {
        let inputs = &self.program.pipeline.stage(job.stage).inputs;
        let late: Vec<Input> = inputs.iter().filter(|input| input.is_of_the_queue()).cloned().collect();
        let mut state: PacketState = job.state;
        let to = Destination { port: job.port, wait: Some(wait), ..Destination::default() };
        self.write_inputs(&mut state, &late, to);
        self.s = state;
        self.stages(job.stage);
        self.run_jobs();
    }
}
