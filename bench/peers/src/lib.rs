// SPDX-License-Identifier: MIT
//! Empty on purpose: this crate only pins the sources of the peers.
