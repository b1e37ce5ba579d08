"""A spec as cells: which there are, which trial comes next, what their trials count to, where two differ."""
