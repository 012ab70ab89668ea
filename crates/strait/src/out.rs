//! Printing. If the reader of the output has closed the pipe (`strait trace … | head`), the command ends without a message, as Unix tools
//! do. It unwinds instead of dying from SIGPIPE, so that everything it created in the kernel is removed.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The exit status that a shell shows for a process that SIGPIPE ended.
const CLOSED: u8 = 128 + 13;

/// The panic payload that ends a command when printing fails.
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

/// Runs a command until it ends, or until the reader of its output has closed the pipe.
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

/// Prints to the standard output.
pub fn stdout(text: Arguments<'_>) {
    // Names, texts and file names may hold commands for terminals, wherever they come from.
    let text = text.to_string();
    printed(io::stdout().lock().write_all(abi::text::printed(&text).as_bytes()));
}

/// Prints to the standard error.
pub fn stderr(text: Arguments<'_>) {
    let text = text.to_string();
    printed(io::stderr().lock().write_all(abi::text::printed(&text).as_bytes()));
}

fn printed(result: io::Result<()>) {
    // If the command is already unwinding, nothing more must be stopped.
    if let Err(error) = result
        && !std::thread::panicking()
    {
        std::panic::resume_unwind(Box::new(Stopped(error)));
    }
}

/// The standard output as a writer of bytes.
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
