//! Interfaces whose packets the kernel gives to one program: two programs on one interface would each believe that they have all of them.

use anyhow::bail;
use io::bpf::{self, Claim, Ours};
use io::link::Handle;

use harness::targets::kernel;

/// Claims the interfaces of the ports for this process, as long as it lives. It is an error if a program of Strait has one already. Programs of
/// others are left as they are.
pub fn claim(links: &Handle, ports: &[(u32, String)]) -> anyhow::Result<Vec<Claim>> {
    kernel::sweep()?;
    let mut claims: Vec<(u32, Claim)> = Vec::new();
    for (_, interface) in ports {
        let index = links.index(interface)?;
        if claims.iter().any(|(claimed, _)| *claimed == index) {
            continue;
        }
        let claim = match bpf::claim(&bpf::of_interface(index)?)? {
            Ok(claim) => claim,
            Err(holder) => {
                let what = bpf::ours(index)?.first().map(described).unwrap_or_default();
                bail!(
                    "`{interface}` is a port of another `strait run` already ({holder}{what}); nothing was changed\n  \
                     hint: end that one first, or name another interface"
                );
            }
        };
        if let Some(program) = bpf::ours(index)?.first() {
            bail!(
                "`{interface}` has a program of Strait already{}; nothing was changed\n  \
                 hint: take that one down first, or name another interface",
                described(program)
            );
        }
        claims.push((index, claim));
    }
    Ok(claims.into_iter().map(|(_, claim)| claim).collect())
}

fn described(program: &Ours) -> String {
    format!(": the program `{}`, instance {}", program.program.name, program.instance)
}
