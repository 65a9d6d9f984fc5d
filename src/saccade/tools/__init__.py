"""Typed visual tools that a model can call: schema in, typed result out."""
