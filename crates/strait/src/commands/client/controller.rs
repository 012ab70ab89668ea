//! `strait controller`: the control planes of apps as P4Runtime clients, for Strait and any other server.
//!
//! Several may run: one is the primary, and the others wait for its end. Whoever becomes the primary reads what the device holds, and goes on with it. So
//! a controller may die or be replaced, and no session is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use control::controller::{self, Controller, Event};
use dataplane::Device as _;
use grpc::RemoteDevice;
use grpc::client::ClientError;

use super::connect;
use crate::cli::clients::{ControllerArgs, ControllerCommand};
use crate::commands::nat64::log;
use crate::planes::BuiltIn;

/// The interval at which a server that is away is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest wait for a message, after which the command looks whether it was interrupted.
const TURN: Duration = Duration::from_millis(100);

static STOP: AtomicBool = AtomicBool::new(false);

/// Controls a device until it is interrupted.
pub fn run(args: &ControllerArgs) -> anyhow::Result<()> {
    let (built_in, ports) = match &args.command {
        ControllerCommand::L2 { ports, ageing } => (BuiltIn::L2(*ageing), ports.clone()),
        ControllerCommand::Nat44 { pool } => {
            (format!("nat44:{pool}").parse().map_err(|why: String| anyhow!(why))?, Vec::new())
        }
        ControllerCommand::Nat64 { config } => {
            (BuiltIn::Nat64(Box::new(translator::source::controlled(config, &log::plain())?)), Vec::new())
        }
    };
    io::signals::at_end(|| STOP.store(true, Ordering::Release))?;
    let mut reported = String::new();
    while !STOP.load(Ordering::Acquire) {
        let Err(why) = control(args, &built_in, &ports) else { continue };
        let away = matches!(
            why.downcast_ref::<ClientError>(),
            Some(ClientError::Connect { .. } | ClientError::Silent(_) | ClientError::Refused(_))
        );
        if !away {
            return Err(why);
        }
        // The same reason is told once.
        let text = why.to_string();
        if text != reported {
            eprintln!("{text}; trying again");
            reported = text;
        }
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// Waits for the turn, and controls the device until the turn ends.
fn control(args: &ControllerArgs, built_in: &BuiltIn, ports: &[u32]) -> anyhow::Result<()> {
    let mut client = connect(&args.server)?;
    let waiting = Instant::now();
    if !client.wait_for_turn(|| STOP.load(Ordering::Acquire))? {
        return Ok(());
    }
    let info = client.info()?;
    let (mut device, found) = RemoteDevice::new(client, info, built_in.program())?;
    let mut plane: Box<dyn Controller> = built_in.make(device.manifest()).map_err(|why| anyhow!(why))?;
    eprintln!(
        "primary after {:.1} s; the device holds {} entries",
        waiting.elapsed().as_secs_f64(),
        found.len()
    );
    let mut refused = 0u64;
    let mut tell = |events: &[Event<'_>], now: u64, device: &mut RemoteDevice| {
        for why in controller::tell(&mut *plane, now, events, device) {
            if refused == 0 {
                eprintln!("warning: a write was refused: {why}");
            }
            refused += 1;
        }
    };
    let started = Instant::now();
    tell(&[Event::Found(&found)], 0, &mut device);
    drop(found);
    tell(&[Event::Started(ports)], 0, &mut device);
    while !STOP.load(Ordering::Acquire) {
        let events = device.wait(TURN)?;
        let now = started.elapsed().as_micros() as u64;
        tell(&events.iter().map(Event::Told).collect::<Vec<_>>(), now, &mut device);
        if device.is_deposed() {
            eprintln!("another controller is the primary; waiting");
            return Ok(());
        }
    }
    Ok(())
}
