//! The option `--target`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use harness::targets::RunTarget;

/// Reads the name of a target.
pub fn target() -> impl TypedValueParser<Value = RunTarget> {
    let names = RunTarget::ALL.map(|target| PossibleValue::new(target.name()).help(target.about()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<RunTarget>())
}
