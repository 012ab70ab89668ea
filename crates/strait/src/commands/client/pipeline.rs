//! `strait pipeline`: the program of a device.

use std::path::Path;

use proto::p4::config::v1::P4Info;
use proto::p4::v1::ForwardingPipelineConfig;
use proto::p4::v1::set_forwarding_pipeline_config_request::Action;

use super::connect;
use crate::cli::Preprocess;
use crate::cli::clients::{PipelineArgs, PipelineCommand};
use crate::frontend;

/// Pushes a program, or prints the P4Info of the running one.
pub fn run(args: &PipelineArgs) -> anyhow::Result<()> {
    let mut client = connect(&args.server)?;
    match &args.command {
        PipelineCommand::Push { program, p4info, keep } => {
            let action = if *keep { Action::ReconcileAndCommit } else { Action::VerifyAndCommit };
            client.push(action, config(program, p4info.as_deref())?)?;
        }
        PipelineCommand::Info => {
            let info = client.info()?;
            match args.server.json {
                true => println!("{}", proto::json(&info)),
                false => print!("{}", proto::text(&info)),
            }
        }
    }
    Ok(())
}

/// What is pushed: the file as it is, and its P4Info.
fn config(program: &Path, p4info: Option<&Path>) -> anyhow::Result<ForwardingPipelineConfig> {
    let info: P4Info = match p4info {
        Some(file) => {
            let text = String::from_utf8_lossy(&frontend::contents(file)?).into_owned();
            proto::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", file.display()))?
        }
        None => frontend::p4info(&frontend::control_plane(program, &Preprocess::default())?)?,
    };
    Ok(ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: frontend::contents(program)?,
        cookie: None,
    })
}
