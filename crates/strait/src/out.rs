//! Printing. Where whoever reads the output has gone (`strait trace … | head`), the command ends quietly, as a Unix tool does; all
//! that it made in the kernel is removed on the way, for this unwinds instead of dying of SIGPIPE.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// What a shell shows of a process that SIGPIPE ended.
const CLOSED: u8 = 128 + 13;

/// Why printing ended the command.
struct Stopped(io::Error);

macro_rules! print {
    ($($text:tt)*) => { $crate::out::stdout(format_args!($($text)*)) };
}
macro_rules! println {
    () => { $crate::out::stdout(format_args!("\n")) };
    ($($text:tt)*) => { $crate::out::stdout(format_args!("{}\n", format_args!($($text)*))) };
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::out::stderr(format_args!($($text)*)) };
}
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::out::stderr(format_args!("{}\n", format_args!($($text)*))) };
}

/// Runs a command until it ends, or nobody reads what it prints.
pub fn until_closed(command: impl FnOnce() -> ExitCode + std::panic::UnwindSafe) -> ExitCode {
    let payload = match std::panic::catch_unwind(command) {
        Ok(code) => return code,
        Err(payload) => payload,
    };
    match payload.downcast::<Stopped>() {
        Ok(stopped) if stopped.0.kind() == ErrorKind::BrokenPipe => ExitCode::from(CLOSED),
        Ok(stopped) => {
            let _ = writeln!(io::stderr(), "error: cannot print: {}", stopped.0);
            ExitCode::from(1)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Prints to standard output.
pub fn stdout(text: Arguments<'_>) {
    printed(io::stdout().lock().write_fmt(text));
}

/// Prints to standard error.
pub fn stderr(text: Arguments<'_>) {
    printed(io::stderr().lock().write_fmt(text));
}

fn printed(result: io::Result<()>) {
    // While the command is unwinding already, there is nothing more to stop.
    if let Err(error) = result
        && !std::thread::panicking()
    {
        std::panic::resume_unwind(Box::new(Stopped(error)));
    }
}

/// Standard output for what writes bytes.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        printed(io::stdout().lock().write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        printed(io::stdout().lock().flush());
        Ok(())
    }
}
