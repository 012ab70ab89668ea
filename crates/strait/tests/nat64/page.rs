//! Reads the page of recipes, so that tests run its very text. Before each fenced block stands what it is: `On HOST, FILE` has the content of a file, and
//! `On HOST` has commands. In blocks of the language `console`, commands stand after `$ `, and what they print after them.

use crate::network::Network;

/// A fenced block of the page.
#[derive(Debug)]
struct Block {
    hosts: Vec<String>,
    file: Option<String>,
    language: String,
    text: String,
}

/// A chapter of the page.
pub struct Recipe {
    title: String,
    blocks: Vec<Block>,
}

impl Recipe {
    /// The chapter with this title.
    pub fn read(title: &str) -> Recipe {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recipes.md");
        let page = std::fs::read_to_string(file).expect("docs/recipes.md");
        let chapter = page.split("\n## ").find(|chapter| chapter.lines().next() == Some(title));
        let chapter = chapter.unwrap_or_else(|| panic!("docs/recipes.md has no chapter `{title}`"));
        Recipe { title: title.to_owned(), blocks: blocks(chapter) }
    }

    /// Follows the whole recipe, in the order of the page.
    pub fn follow(&self, network: &Network) {
        self.follow_blocks(network, &self.blocks);
    }

    /// Follows all but the last block.
    pub fn follow_first(&self, network: &Network) {
        self.follow_blocks(network, &self.blocks[..self.blocks.len() - 1]);
    }

    /// Follows the last block.
    pub fn follow_last(&self, network: &Network) {
        self.follow_blocks(network, &self.blocks[self.blocks.len() - 1..]);
    }

    fn follow_blocks(&self, network: &Network, blocks: &[Block]) {
        assert!(!blocks.is_empty(), "the chapter `{}` says nothing to do", self.title);
        for block in blocks {
            for host in &block.hosts {
                block.follow(network, host);
            }
        }
    }
}

impl Block {
    fn follow(&self, network: &Network, host: &str) {
        match (&self.file, &*self.language) {
            (Some(file), _) => network.write(host, file, &self.text),
            (None, "sh") => drop(network.host(host).sh(&self.text)),
            (None, "console") => {
                for part in format!("\n{}", self.text).split("\n$ ").skip(1) {
                    let (command, output) = part.split_once('\n').unwrap_or((part, ""));
                    let output = output.trim_end_matches('\n');
                    // Daemons may need a moment.
                    let got = network.host(host).eventually(command, output);
                    assert_eq!(got.trim_end_matches('\n'), output, "{host}: {command}");
                }
            }
            (None, other) => {
                panic!("a block of the language `{other}` is neither a file nor commands: {self:?}")
            }
        }
    }
}

/// The blocks of a text that say where they belong.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut last = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            last = if line.is_empty() { last } else { line };
            continue;
        };
        let inside: String =
            lines.by_ref().take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect();
        let names = last.split('`').skip(1).step_by(2).map(str::to_owned);
        let (files, hosts): (Vec<_>, Vec<_>) = names.partition(|name| name.starts_with('/'));
        if last.starts_with("On ") {
            let file = files.into_iter().next();
            found.push(Block { hosts, file, language: language.to_owned(), text: inside });
        } else {
            assert_eq!(language, "text", "before a block of `{language}` stands no `On HOST`: {last}");
        }
    }
    found
}
