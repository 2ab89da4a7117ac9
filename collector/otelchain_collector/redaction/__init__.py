"""The second line of defence: what arrives from anyone passes the policy before it is stored.

``stage`` stands between the bytes of a request and the decoders; ``stored`` and ``rewrite`` do the
same to what is in a file already.
"""
