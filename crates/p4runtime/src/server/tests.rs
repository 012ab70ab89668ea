//! Programs that cannot be loaded or started: what there was stays.

use abi::Manifest;
use dataplane::device::Model;

use super::*;

/// A target whose programs are models. It refuses when it is told to.
#[derive(Default)]
struct Fake {
    running: Option<Model>,
    loaded: Option<Model>,
    refuses_to_load: bool,
    refuses_to_commit: bool,
}

impl Target for Fake {
    fn compiler(&self) -> Compiler {
        Arc::new(|_, _| Ok(compiled()))
    }

    fn load(&mut self, _: Box<dyn Any + Send>) -> Result<(), String> {
        if self.refuses_to_load {
            return Err("it is told to refuse".to_string());
        }
        self.loaded = Some(Model::new(Manifest::default()));
        Ok(())
    }

    fn loaded(&mut self) -> Option<&mut dyn Device> {
        self.loaded.as_mut().map(|model| model as &mut dyn Device)
    }

    fn both(&mut self) -> Option<(&mut dyn Device, &mut dyn Device)> {
        Some((self.running.as_mut()?, self.loaded.as_mut()?))
    }

    fn commit(&mut self) -> Result<(), String> {
        let next = self.loaded.take().ok_or("no program is loaded")?;
        match self.refuses_to_commit {
            true => Err("it is told to refuse".to_string()),
            false => {
                self.running = Some(next);
                Ok(())
            }
        }
    }

    fn discard(&mut self) {
        self.loaded = None;
    }

    fn running(&mut self) -> Option<&mut dyn Device> {
        self.running.as_mut().map(|model| model as &mut dyn Device)
    }
}

fn compiled() -> Compiled {
    Compiled { info: P4Info::default(), manifest: Manifest::default(), object: Box::new(()) }
}

fn push(server: &mut Server<Fake>, action: Action, cookie: u64) -> Result<(), Code> {
    let config = ForwardingPipelineConfig {
        p4info: Some(P4Info::default()),
        p4_device_config: Vec::new(),
        cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie }),
    };
    let is_commit = action == Action::Commit;
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: action.into(),
        config: (!is_commit).then_some(config),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    server.push(request, (!is_commit).then(compiled)).map_err(|status| status.code)
}

fn cookie(server: &Server<Fake>) -> Option<u64> {
    let request = v1::GetForwardingPipelineConfigRequest::default();
    Some(server.pipeline(&request).config?.cookie?.cookie)
}

fn server() -> Server<Fake> {
    let mut server = Server::new(1, Box::new(Fake::default()));
    let update = v1::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        ..v1::MasterArbitrationUpdate::default()
    };
    let message = v1::StreamMessageRequest { update: Some(request::Update::Arbitration(update)) };
    assert_eq!(server.message(1, message).expect("it is the primary").len(), 1);
    server
}

#[test]
fn a_program_that_cannot_be_loaded_leaves_the_saved_one() {
    let mut server = server();
    assert_eq!(push(&mut server, Action::VerifyAndCommit, 1), Ok(()));
    assert_eq!(push(&mut server, Action::VerifyAndSave, 2), Ok(()));
    server.target().refuses_to_load = true;
    assert_eq!(push(&mut server, Action::VerifyAndCommit, 3), Err(Code::InvalidArgument));
    assert_eq!(push(&mut server, Action::VerifyAndSave, 4), Err(Code::InvalidArgument));
    assert_eq!(cookie(&server), Some(2), "the saved one is there");
    assert_eq!(push(&mut server, Action::Commit, 0), Ok(()));
    assert_eq!(cookie(&server), Some(2));
}

#[test]
fn a_program_that_cannot_be_started_leaves_the_running_one() {
    let mut server = server();
    assert_eq!(push(&mut server, Action::VerifyAndCommit, 1), Ok(()));
    server.target().refuses_to_commit = true;
    assert_eq!(push(&mut server, Action::VerifyAndCommit, 2), Err(Code::Internal));
    assert_eq!(cookie(&server), Some(1));
    assert!(server.target().running().is_some() && server.target().loaded().is_none());
    assert_eq!(push(&mut server, Action::Commit, 0), Err(Code::NotFound));
}
