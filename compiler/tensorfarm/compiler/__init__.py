"""Turns a program into an artifact: passes with sites, pipelines, lowering, Triton codegen, memory, backends."""
