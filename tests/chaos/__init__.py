"""Life on a cluster: workers that die, sleep, come and go, a broker that stalls, strangers that write nonsense."""
