//! The storage that a part of a generated program can read and write.

use super::Generator;
use super::types::{Shape, Ty};

/// A variable or a part of one.
#[derive(Clone, Debug)]
pub struct Place {
    pub text: String,
    pub ty: Ty,
    pub writable: bool,
}

/// A header stack. Its elements are places too.
#[derive(Clone, Debug)]
pub struct Stack {
    pub text: String,
    pub header: usize,
    pub size: u32,
}

/// The places and stacks in scope.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub places: Vec<Place>,
    pub stacks: Vec<Stack>,
}

impl Generator {
    /// Adds a variable with all its parts to the scope.
    pub fn see(&mut self, text: &str, ty: &Ty, writable: bool) {
        self.scope.places.push(Place { text: text.into(), ty: ty.clone(), writable });
        let fields = match ty {
            Ty::Struct(n) => self.structs[*n].fields.clone(),
            Ty::Header(n) => self.headers[*n].fields.clone(),
            _ => Vec::new(),
        };
        for (field, ty) in fields {
            self.see(&format!("{text}.{field}"), &ty, writable);
        }
    }

    /// Adds all headers of the program, which are fields of `hdr`.
    pub fn see_headers(&mut self, writable: bool) {
        for member in self.members.clone() {
            let text = format!("hdr.{}", member.name);
            match member.shape {
                Shape::One(h) => self.see(&text, &Ty::Header(h), writable),
                Shape::Stack(header, size) => {
                    for n in 0..size {
                        self.see(&format!("{text}[{n}]"), &Ty::Header(header), writable);
                    }
                    self.scope.stacks.push(Stack { text, header, size });
                }
                Shape::Union(types) => {
                    for (n, h) in types.iter().enumerate() {
                        self.see(&format!("{text}.m{n}"), &Ty::Header(*h), writable);
                    }
                }
            }
        }
    }

    /// Adds the program's metadata, which is `meta`, and the readable fields of the architecture's metadata.
    pub fn see_metadata(&mut self) {
        for (field, ty) in self.meta.clone() {
            self.see(&format!("meta.{field}"), &ty, true);
        }
        self.see("sm.ingress_port", &Ty::Bit(9), false);
        self.see("sm.packet_length", &Ty::Bit(32), false);
    }

    /// Calls a function, and then removes from the scope what it added.
    pub fn inside<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let (places, stacks) = (self.scope.places.len(), self.scope.stacks.len());
        let result = run(self);
        self.scope.places.truncate(places);
        self.scope.stacks.truncate(stacks);
        result
    }

    /// Calls a function with an empty scope.
    pub fn apart<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::take(&mut self.scope);
        let result = run(self);
        self.scope = outer;
        result
    }

    /// A random place that satisfies a condition. Half of the time it is one of the places that were added last, which are local.
    pub fn place(&mut self, suits: impl Fn(&Place) -> bool) -> Option<Place> {
        let found: Vec<usize> =
            (0..self.scope.places.len()).filter(|n| suits(&self.scope.places[*n])).collect();
        if found.is_empty() {
            return None;
        }
        let late = found.len().saturating_sub(8);
        let at =
            if self.chance(50) { late + self.below(found.len() - late) } else { self.below(found.len()) };
        Some(self.scope.places[found[at]].clone())
    }

    /// A writable place of a type.
    pub fn target(&mut self, ty: &Ty) -> Option<String> {
        if let Ty::Header(header) = ty
            && self.chance(25)
            && let Some(element) = self.element(*header)
        {
            return Some(element);
        }
        let whole = self.place(|p| p.writable && p.ty == *ty).map(|p| p.text);
        let Ty::Bit(width) = *ty else { return whole };
        if whole.is_some() && !self.chance(12) {
            return whole;
        }
        let larger = self.place(|p| p.writable && p.ty.is_number() && p.ty.width() > width);
        let sliced = larger.map(|p| {
            let low = self.below((p.ty.width() - width + 1) as usize) as u32;
            format!("{}[{}:{low}]", p.text, low + width - 1)
        });
        sliced.or(whole)
    }

    /// An element of a stack with an index that is computed at run time.
    pub fn element(&mut self, header: usize) -> Option<String> {
        if !self.features.indices || self.constant {
            return None;
        }
        let stacks: Vec<_> = self.scope.stacks.iter().filter(|s| s.header == header).cloned().collect();
        if stacks.is_empty() {
            return None;
        }
        let stack = stacks[self.below(stacks.len())].clone();
        let index = self.place(|p| matches!(p.ty, Ty::Bit(2..=64)))?;
        // Sometimes the index is beyond the last element, which is allowed.
        let index = match self.below(4) {
            0 => index.text,
            _ if stack.size.is_power_of_two() && stack.size > 1 => {
                format!("({} & {})", index.text, stack.size - 1)
            }
            _ => format!("({} & 1)", index.text),
        };
        Some(format!("{}[{index}]", stack.text))
    }
}
