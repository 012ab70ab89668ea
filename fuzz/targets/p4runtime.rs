//! Messages of controllers: bytes that are decoded as what a server gets, and handled by a server whose program is tests/p4runtime/kinds.p4.
//!
//! The first byte says which message the rest is. One server handles all inputs, so that messages meet what others have written.
#![no_main]

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use p4runtime::server::{Compiled, Compiler, Now, Server, Target};
use dataplane::Device;
use interp::Interpreter;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto::p4::v1;

/// A target with one program, the interpreter.
struct Interp {
    program: Arc<ir::Verified>,
    loaded: Option<Interpreter<'static>>,
    running: Option<Interpreter<'static>>,
}

impl Target for Interp {
    fn compiler(&self) -> Compiler {
        Arc::new(|_, _| Err("the fuzzer compiles nothing".to_string()))
    }

    fn load(&mut self, _object: Box<dyn Any + Send>) -> Result<(), String> {
        let mut interpreter = Interpreter::of(self.program.clone()).map_err(|why| why.to_string())?;
        interpreter.set_controller_port(Some(64));
        self.loaded = Some(interpreter);
        Ok(())
    }

    fn loaded(&mut self) -> Option<&mut dyn Device> {
        self.loaded.as_mut().map(|device| device as &mut dyn Device)
    }

    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)> {
        Some((self.running.as_mut()?, self.loaded.as_mut()?))
    }

    fn commit(&mut self) -> Result<(), String> {
        self.running = Some(self.loaded.take().ok_or("nothing is loaded")?);
        Ok(())
    }

    fn discard(&mut self) {
        self.loaded = None;
    }

    fn running(&mut self) -> Option<&mut dyn Device> {
        self.running.as_mut().map(|device| device as &mut dyn Device)
    }
}

fn server() -> Server<Interp> {
    let (mut map, mut diags) = (p4::SourceMap::default(), p4::Diagnostics::default());
    let text = include_str!("../../tests/p4runtime/kinds.p4");
    let made = p4::accept(&mut map, "kinds.p4", text, &[], &p4::Embedded, &mut diags, |typed, map, diags| {
        let program = p4::lower_verified(typed, map, &p4::Passes::default(), diags)?;
        Some((program, emit::p4info::message(&p4::api::of(typed, map)).ok()?))
    });
    let (program, info) = made.flatten().expect("the program is right");
    let target = Interp { program: Arc::new(program), loaded: None, running: None };
    let mut server = Server::new(1, Box::new(target));
    let compiled = Compiled { info, object: Box::new(()) };
    server.start(compiled, text.as_bytes().to_vec(), |_| Ok(())).expect("it starts");
    server
}

/// Makes stream 1 the primary with the election id 1, whatever has happened before.
fn elect(server: &mut Server<Interp>) {
    server.leave(1);
    let update = v1::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: u64::MAX, low: u64::MAX }),
        ..v1::MasterArbitrationUpdate::default()
    };
    let update = Some(v1::stream_message_request::Update::Arbitration(update));
    let _ = server.message(1, v1::StreamMessageRequest { update });
}

fn handle(server: &mut Server<Interp>, kind: u8, bytes: &[u8]) {
    match kind % 4 {
        0 => {
            let Ok(mut request) = v1::WriteRequest::decode(bytes) else { return };
            request.election_id = Some(v1::Uint128 { high: u64::MAX, low: u64::MAX });
            let _ = server.write(&request);
        }
        1 => {
            let Ok(request) = v1::ReadRequest::decode(bytes) else { return };
            let _ = server.read(&request, &mut |_| {});
        }
        2 => {
            let Ok(message) = v1::StreamMessageRequest::decode(bytes) else { return };
            let _ = server.message(u64::from(kind / 4 % 3) + 1, message);
        }
        _ => {
            let Ok(request) = v1::SetForwardingPipelineConfigRequest::decode(bytes) else { return };
            let _ = server.begin_push(&request);
        }
    }
    let events = server.target().running().and_then(|device| device.events().ok()).unwrap_or_default();
    server.tell(&events, Now { monotonic: 0, wall: 0 });
}

thread_local! {
    static SERVER: RefCell<Server<Interp>> = RefCell::new(server());
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    SERVER.with_borrow_mut(|server| {
        elect(server);
        handle(server, *kind, bytes);
    });
});
