// SPDX-License-Identifier: MIT
//! Shapes behind a trait.

use std::f64::consts::PI;
use std::fmt;

pub trait Shape {
    fn area(&self) -> f64;
    fn name(&self) -> String;
}

#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct Circle(f64);

#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct Rectangle {
    width: f64,
    height: f64,
}

#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub struct Ring {
    outer: Circle,
    inner: Circle,
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        PI * self.0 * self.0
    }
    fn name(&self) -> String {
        format!("circle of {:.2}", self.0)
    }
}

impl Shape for Rectangle {
    fn area(&self) -> f64 {
        self.width * self.height
    }
    fn name(&self) -> String {
        format!("rectangle of {:.2} x {:.2}", self.width, self.height)
    }
}

impl Shape for Ring {
    fn area(&self) -> f64 {
        self.outer.area() - self.inner.area()
    }
    fn name(&self) -> String {
        format!("{} in {}", self.inner.name(), self.outer.name())
    }
}

impl fmt::Display for dyn Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {:.3}", self.name(), self.area())
    }
}

pub fn all(size: f64) -> Vec<Box<dyn Shape>> {
    let mut shapes: Vec<Box<dyn Shape>> = Vec::new();
    for i in 1..=20 {
        let part = size / f64::from(i);
        shapes.push(Box::new(Circle(part)));
        shapes.push(Box::new(Rectangle { width: part, height: part * 2.0 }));
        shapes.push(Box::new(Ring { outer: Circle(part * 2.0), inner: Circle(part) }));
    }
    shapes.sort_by(|a, b| a.area().total_cmp(&b.area()));
    shapes
}

pub fn table(shapes: &[Box<dyn Shape>]) -> Vec<String> {
    let width = shapes.iter().map(|s| s.name().chars().count()).max().unwrap_or(0);
    shapes.iter().map(|s| format!("{:width$} {}", s.name(), s)).collect()
}
