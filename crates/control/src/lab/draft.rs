//! What a topology's file says, before anything is checked: words with their places.

use std::time::Duration;

use toml::Spanned;

use super::Form;

/// A word of the file.
pub type Word = Spanned<String>;

/// A topology as it is written.
#[derive(Debug)]
pub struct Draft {
    pub form: Form,
    pub hosts: Vec<HostDraft>,
    pub switches: Vec<SwitchDraft>,
    pub links: Vec<LinkDraft>,
}

#[derive(Debug)]
pub struct HostDraft {
    pub name: Word,
    pub addresses: Vec<Word>,
    pub mac: Option<Word>,
    pub gateways: Vec<Word>,
    pub routes: Vec<Word>,
    /// Addresses, and the link-layer address of each.
    pub neighbours: Vec<(Word, Word)>,
    pub commands: Vec<String>,
    pub offloads: bool,
}

#[derive(Debug)]
pub struct SwitchDraft {
    pub name: Word,
    pub program: Option<String>,
    pub target: Option<Word>,
    pub entries: Vec<String>,
    pub grpc: Option<Spanned<u16>>,
    pub cpu_port: Option<Spanned<u32>>,
    pub workers: Option<usize>,
    pub controller: Option<String>,
}

#[derive(Debug)]
pub struct LinkDraft {
    pub ends: Vec<Word>,
    /// The place of the list of ends.
    pub place: std::ops::Range<usize>,
    pub delay: Delay,
    pub loss: Option<Word>,
    pub rate: Rate,
    pub queue: Option<u32>,
}

/// A delay: a word that is still to be read, or a number that needs no check.
#[derive(Debug)]
pub enum Delay {
    Word(Option<Word>),
    Is(Duration),
}

/// A rate, in the same way, in bits per second.
#[derive(Debug)]
pub enum Rate {
    Word(Option<Word>),
    Is(u64),
}
