"""Turns a program into an artifact: passes with sites, pipelines, backends."""
