"""Bytes to facts, pure: no open, clock, process, socket or unseeded random."""
