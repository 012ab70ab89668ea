//! What names stand for, scope by scope.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use abi::Bits;
use ir::{CounterId, DirectCounterId, MeterId, RegisterId, TableId, ValueSetId, VarId};

use super::types::{Store, T, Val};
use crate::ast;

/// A scope and those around it.
pub struct Scope<'a> {
    names: RefCell<HashMap<&'a str, Binding<'a>>>,
    parent: Option<Env<'a>>,
}

/// A shared scope.
pub type Env<'a> = Rc<Scope<'a>>;

/// What a name stands for.
#[derive(Clone)]
pub enum Binding<'a> {
    /// A variable, or a parameter that is bound to one.
    Store(Store),
    /// A constant, or a parameter that is bound to a value.
    Value(Val),
    /// A type's declaration.
    Type(&'a ast::Decl),
    /// A type parameter.
    Alias(T),
    /// A control's action, and the scope it sees.
    Action(&'a ast::Decl, Env<'a>),
    /// A function.
    Function(&'a ast::Decl),
    /// Extern functions of one name.
    Extern(Rc<Vec<&'a ast::FunctionPrototype>>),
    /// An object.
    Object(Object<'a>),
    /// `packet_in` or `packet_out`.
    Packet,
}

/// An instance.
#[derive(Clone)]
pub enum Object<'a> {
    Counter(CounterId),
    DirectCounter(DirectCounterId),
    Register(RegisterId, T),
    Meter(MeterId),
    DirectMeter(MeterId),
    /// An action profile or selector, which a table's `implementation` names.
    ActionProfile(ir::ProfileId),
    /// A package: its arguments.
    Package(&'a [ast::Argument]),
    /// PSA: `Hash<O>`.
    Hash(ir::HashAlgorithm, T),
    /// PSA: the sum so far, without its last complement.
    InternetChecksum(VarId),
    /// PSA: from, to.
    Random(Bits, Bits, T),
    /// PSA.
    Digest,
    /// PSA: packet replication, buffering and queueing.
    Engine,
    /// With the number of parts of its members.
    ValueSet(ValueSetId, usize),
    Table(TableId),
    /// A control or parser.
    Block(Rc<BlockInstance<'a>>),
}

impl Object<'_> {
    /// Whether both are the same instance of an extern.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Object::Counter(a), Object::Counter(b)) => a == b,
            (Object::DirectCounter(a), Object::DirectCounter(b)) => a == b,
            (Object::Register(a, _), Object::Register(b, _)) => a == b,
            (Object::Meter(a), Object::Meter(b)) | (Object::DirectMeter(a), Object::DirectMeter(b)) => a == b,
            (Object::InternetChecksum(a), Object::InternetChecksum(b)) => a == b,
            (Object::Hash(a, _), Object::Hash(b, _)) => a == b,
            (Object::ActionProfile(a), Object::ActionProfile(b)) => a == b,
            // Nothing tells one from another.
            (Object::Digest, Object::Digest) | (Object::Engine, Object::Engine) => true,
            (Object::Random(a, b, _), Object::Random(c, d, _)) => (a, b) == (c, d),
            _ => false,
        }
    }
}

/// An instance of a control or parser.
pub struct BlockInstance<'a> {
    pub decl: &'a ast::Decl,
    /// Full control-plane name.
    pub path: String,
    /// Constructor's arguments: values, parsers and controls.
    pub ctor_args: Vec<Binding<'a>>,
    /// Type arguments.
    pub types: Vec<T>,
    /// Made at the first application.
    pub body: RefCell<Option<Applied<'a>>>,
}

/// What the first application of an instance settled.
#[derive(Clone)]
pub struct Applied<'a> {
    /// Its scope, with parameters and locals.
    pub env: Env<'a>,
    /// What each parameter is bound to.
    pub params: Vec<Bound>,
}

/// What a parameter of an instance is bound to.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The argument itself.
    Reference(Store),
    /// A variable of the instance, copied in at each application.
    Copy(Store),
    /// A packet, or a value known when compiled.
    Fixed,
}

impl<'a> Scope<'a> {
    /// A scope inside another.
    pub fn new(parent: Option<Env<'a>>) -> Env<'a> {
        Rc::new(Scope { names: RefCell::new(HashMap::new()), parent })
    }

    /// Binds a name here.
    pub fn bind(&self, name: &'a str, binding: Binding<'a>) {
        self.names.borrow_mut().insert(name, binding);
    }

    /// What a name stands for here.
    pub fn get(&self, name: &str) -> Option<Binding<'a>> {
        let own = self.names.borrow().get(name).cloned();
        own.or_else(|| self.parent.as_ref().and_then(|p| p.get(name)))
    }

    /// Forgets all names: a scope that holds an action is held by it, and would never be freed.
    pub fn clear(&self) {
        self.names.borrow_mut().clear();
    }

    /// The outermost scope.
    pub fn global(self: &Rc<Self>) -> Env<'a> {
        let mut scope = self.clone();
        while let Some(parent) = &scope.parent {
            scope = parent.clone();
        }
        scope
    }

    /// All names that can be seen, for "did you mean".
    pub fn names(&self) -> Vec<&'a str> {
        let mut all: Vec<_> = self.names.borrow().keys().copied().collect();
        if let Some(parent) = &self.parent {
            all.extend(parent.names());
        }
        all.sort_unstable();
        all
    }
}
