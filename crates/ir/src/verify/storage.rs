//! The rules for storage: header types, headers, stacks, variables, and the architecture's metadata.

use super::{Check, Rule};
use crate::pipeline::Mention;
use crate::program::VarId;

impl Check<'_> {
    pub(super) fn storage(&mut self) {
        let p = self.p;
        for ty in &p.header_types {
            let varbits = ty.fields.iter().filter(|f| f.ty.is_varbit()).count();
            self.require(varbits <= 1, Rule::OneVarbit);
            self.require(ty.min_bits() % 8 == 0, Rule::WholeBytes);
        }
        for header in &p.headers {
            self.require(header.ty.index() < p.header_types.len(), Rule::KnownHeaderType);
        }
        for stack in &p.stacks {
            let elements = p.headers.get(stack.first.index()..stack.first.index() + stack.size as usize);
            let elements = elements.unwrap_or_default();
            self.require(!elements.is_empty(), Rule::StackInHeaders);
            self.require(
                elements.iter().all(|h| Some(h.ty) == elements.first().map(|f| f.ty)),
                Rule::StackOfOneType,
            );
            self.require(stack.index.index() < p.stacks.len(), Rule::KnownStackIndex);
        }
        for var in &p.vars {
            self.loc = var.loc;
            self.require(!var.ty.is_varbit(), Rule::ScalarVariable);
        }
        self.metadata();
    }

    fn metadata(&mut self) {
        let p = self.p;
        let known = |v: VarId| v.index() < p.vars.len();
        let standard = p.standard.vars().into_iter().all(known);
        let mut pipeline = true;
        p.pipeline.mentions(&mut |mention| {
            pipeline &= match mention {
                Mention::Written(v) | Mention::Read(v) => known(*v),
                Mention::Header(h) => h.index() < p.headers.len(),
                Mention::Expr(_) => true,
            };
        });
        self.require(standard && pipeline, Rule::KnownMetadata);
    }
}
