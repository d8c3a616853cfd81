"""The planted bugs: one change each that weakens privacy, and the test that must see it."""

from tests.planted.runner import Bug

OWN = "tests/conformance/test_own_noise.py"
COUNTED = f"{OWN}::test_each_charged_release_has_noise_of_its_own"
DECIDED = f"{OWN}::test_each_decision_is_made_with_its_own_noise"
KICKED = f"{OWN}::test_each_gradient_of_each_trajectory_has_its_own_noise_in_full"
IN_FULL = f"{OWN}::test_a_decision_counts_its_noise_in_full"
BATCH_IN_FULL = f"{OWN}::test_a_decision_on_a_batch_counts_its_noise_in_full"
BARKER_IN_FULL = f"{OWN}::test_barkers_decision_counts_its_noise_in_full"
SITES = "tests/privacy/test_sites.py"
GRID = f"{SITES}::test_a_replaced_row_moves_the_integers_by_less_than_the_noise_was_made_for"
REFUSED = f"{SITES}::test_what_no_proof_covers_is_refused_where_noise_is_drawn[4398046511104.0]"
DISCRETE = "tests/privacy/test_discrete.py"
LAW = f"{DISCRETE}::test_noise_is_the_discrete_gaussian"
NOISE = "tests/conformance/test_noise.py"
MODELS = "tests/conformance/test_models.py"
CLIPPED = f"{MODELS}::test_clipped_scores_are_those_of_clipped_rows"
MEAN = (
    "tests/privacy/test_noisy_mean.py::test_a_replaced_row_moves_the_sum_by_at_most_the_sensitivity"
)
EXTREMES = "tests/conformance/test_extremes.py"
ROWS = "tests/core/test_kernels_rows.py::test_every_row_is_clipped"
BATCHES = (
    "tests/core/test_minibatch.py::test_every_step_of_every_chain_has_a_batch_and_noise_of_its_own"
)
SUBSETS = "tests/core/test_subsets.py"
FILTER = "tests/core/test_filter.py"
HOLDERS = "tests/api/test_holders.py"
STREAMED = "tests/core/test_streamed.py"
CLUSTER = "tests/storage/test_cluster.py"
SHARES = f"{FILTER}::test_each_branch_is_full_at_its_own_share_of_delta_to_the_unit"
ACCOUNT = "tests/ledger/test_account.py"
LEFT_OUT = "tests/core/test_missing.py"
WARMUP = "tests/conformance/test_samplers.py::test_warmup_is_charged_like_any_step"
COSTS = (
    "tests/core/test_accounting_costs.py"
    "::test_an_event_on_batches_costs_at_least_what_the_worst_neighbours_differ_by"
)

DRAWING = (
    Bug(
        "one noise for all penalty steps",
        "dpmcmc/samplers/penalty.py",
        "taken",
        "gaussian_noise(random, PENALTY_DECISION, noise_multiplier, (length, chains))",
        "gaussian_noise(random, PENALTY_DECISION, noise_multiplier, (1, chains)).repeat(length, 0)",
        f"{COUNTED}[dp_penalty]",
    ),
    Bug(
        "one noise for all chains of a penalty",
        "dpmcmc/samplers/penalty.py",
        "taken",
        "uniforms = random.uniforms((length, chains))",
        "noise[:] = noise[:, :1]\nuniforms = random.uniforms((length, chains))",
        f"{DECIDED}[dp_penalty]",
    ),
    Bug(
        "no noise for penalty steps",
        "dpmcmc/samplers/penalty.py",
        "taken",
        "gaussian_noise(random, PENALTY_DECISION, noise_multiplier, (length, chains))",
        "np.zeros((length, chains), np.int64)",
        f"{COUNTED}[dp_penalty_guided]",
    ),
    Bug(
        "one noise for all chains on batches",
        "dpmcmc/samplers/dp_penalty_subsampled.py",
        "_steps",
        "gaussian_noise(random, SUBSAMPLED_DECISION, noise_multiplier, (length, chains))",
        "gaussian_noise(random, SUBSAMPLED_DECISION, noise_multiplier, (length, "
        "1)).repeat(chains, 1)",
        f"{COUNTED}[dp_penalty_subsampled]",
    ),
    Bug(
        "one noise for all Barker steps",
        "dpmcmc/samplers/dp_barker.py",
        "_steps",
        "gaussian_noise(random, BARKER_DECISION, noise_multiplier, (length, chains))",
        "gaussian_noise(random, BARKER_DECISION, noise_multiplier, (1, chains)).repeat(length, 0)",
        f"{COUNTED}[dp_barker]",
    ),
    Bug(
        "same gradient noise in every trajectory",
        "dpmcmc/samplers/hamiltonian.py",
        "step",
        "gradient_noise(random, z, (length, options.num_leapfrog, chains, dimension))",
        "gradient_noise(random, z, (1, options.num_leapfrog, chains, dimension)).repeat(length, 0)",
        f"{COUNTED}[dp_hmc]",
    ),
    Bug(
        "gradient noise of the first trajectory again",
        "dpmcmc/samplers/hamiltonian.py",
        "step",
        "uniforms = random.uniforms((length, chains))",
        "noise[:] = noise[:1]\nuniforms = random.uniforms((length, chains))",
        KICKED,
    ),
    Bug(
        "one noise for all chains of trajectories",
        "dpmcmc/samplers/hamiltonian.py",
        "step",
        "gaussian_noise(random, TRAJECTORY_DECISION, noise_multiplier, (length, chains))",
        "gaussian_noise(random, TRAJECTORY_DECISION, noise_multiplier, (length, "
        "1)).repeat(chains, 1)",
        f"{COUNTED}[dp_mala]",
    ),
    Bug(
        "noise of the first part in every part",
        "dpmcmc/samplers/minibatch.py",
        "batch_steps",
        "noise[part]",
        "noise[:steps]",
        BATCHES,
    ),
    Bug(
        "unregistered sites get noise",
        "dpmcmc/privacy/sites.py",
        "check",
        "site not in SITES",
        "site is None",
        f"{SITES}::test_a_site_that_is_not_registered_gets_no_noise",
    ),
    Bug(
        "range of a site not checked",
        "dpmcmc/privacy/sites.py",
        "check",
        "not site.least <= noise_multiplier <= site.most",
        "noise_multiplier == 0.0",
        REFUSED,
    ),
    Bug(
        "range of a scale not checked",
        "dpmcmc/privacy/discrete.py",
        "scale_of",
        "not LEAST_MULTIPLIER <= noise_multiplier <= MOST_MULTIPLIER",
        "noise_multiplier == 0.0",
        REFUSED,
    ),
    Bug(
        "noise of half the sd",
        "dpmcmc/privacy/discrete.py",
        "gaussian_noise",
        "log2_sd(noise_multiplier)",
        "log2_sd(noise_multiplier) - 1",
        f"{SITES}::test_noise_is_what_is_claimed_over_the_whole_range",
        compiled=True,
    ),
    Bug(
        "loss of the proof dropped",
        "dpmcmc/privacy/discrete.py",
        "scale_of",
        "SIGMA_MARGIN * math.sqrt(4.0 ** log2 - SPARE_VARIANCE)",
        "math.sqrt(4.0 ** log2 - SPARE_VARIANCE)",
        GRID,
    ),
    Bug(
        "spare variance dropped",
        "dpmcmc/privacy/discrete.py",
        "scale_of",
        "4.0 ** log2 - SPARE_VARIANCE",
        "4.0 ** log2",
        GRID,
    ),
    Bug(
        "rounding to the grid not allowed for",
        "dpmcmc/privacy/discrete.py",
        "scale_of",
        "ratio - 1.5 * math.sqrt(dimension)",
        "ratio",
        GRID,
    ),
    Bug(
        "rounding of one coordinate allowed for",
        "dpmcmc/privacy/discrete.py",
        "noisy_grid",
        "scale_of(noise_multiplier, dimension)",
        "scale_of(noise_multiplier)",
        f"{DISCRETE}::test_the_grid_leaves_the_noise_its_full_size",
    ),
    Bug(
        "released sums not rounded",
        "dpmcmc/kernels/arithmetic/rounding.py",
        "noised",
        "grid * (np.int64(units) + noise)",
        "total + 0.0 * units + grid * noise",
        f"{DISCRETE}::test_what_is_released_is_a_whole_number_of_cells_whatever_the_sum",
    ),
    Bug(
        "tail cut",
        "dpmcmc/kernels/arithmetic/noise.py",
        "discrete_gaussians",
        "position <= len(tape)",
        "whole < 9",
        f"{SITES}::test_noise_has_tails_beyond_those_of_floats",
    ),
    Bug(
        "compiled cells to the nearest",
        "dpmcmc/kernels/compiled/row_vectors.py",
        "_cells",
        "np.trunc(row[i] * factor[i])",
        "np.rint(row[i] * factor[i])",
        "tests/privacy/test_sums.py::test_compiled_loops_have_the_bits_of_numpy",
        compiled=True,
    ),
    Bug(
        "noise on one side only",
        "dpmcmc/kernels/arithmetic/noise.py",
        "discrete_gaussians",
        "-value",
        "value",
        LAW,
        compiled=True,
    ),
    Bug(
        "zero twice as often",
        "dpmcmc/kernels/arithmetic/noise.py",
        "discrete_gaussians",
        "kept and value > 0",
        "kept",
        LAW,
        compiled=True,
    ),
    Bug(
        "exp of twice the exponent",
        "dpmcmc/kernels/arithmetic/noise.py",
        "_exp",
        "power * k > 1",
        "k > 1",
        LAW,
        compiled=True,
    ),
    Bug(
        "a fork keeps its parent's key",
        "dpmcmc/privacy/noise.py",
        "SystemRandom._stream",
        'getattr(self._own, "process", None) != os.getpid()',
        'getattr(self._own, "process", None) is None',
        "tests/privacy/test_noise.py::test_a_forked_process_has_a_stream_of_its_own",
    ),
    Bug(
        "threads share a cipher",
        "dpmcmc/privacy/noise.py",
        "SystemRandom.__init__",
        "self._own = threading.local()",
        "self._own = type('Shared', (), {})()",
        "tests/privacy/test_noise.py::test_threads_that_share_a_source_never_read_the_same_stream",
    ),
    Bug(
        "a key that is known",
        "dpmcmc/privacy/noise.py",
        "SystemRandom._new_cipher",
        "Cipher(AES256(os.urandom(32)), CTR(os.urandom(16)))",
        "Cipher(AES256(bytes(32)), CTR(bytes(16)))",
        "tests/privacy/test_noise.py::test_every_instance_has_a_stream_of_its_own",
    ),
)

DECIDING = (
    Bug(
        "a third of the noise in a penalty walk",
        "dpmcmc/kernels/compiled/penalty_steps.py",
        "penalty_steps",
        "noise[t, c]",
        "noise[t, c] // 3",
        IN_FULL + "[full-0.7]",
        compiled=True,
    ),
    Bug(
        "a third of the noise of a trajectory",
        "dpmcmc/kernels/compiled/hmc_steps.py",
        "hmc_steps",
        "decisions[t, c]",
        "decisions[t, c] // 3",
        IN_FULL + "[hmc-40.0]",
    ),
    Bug(
        "a third of the noise of a gradient",
        "dpmcmc/kernels/compiled/hmc_steps.py",
        "leapfrog",
        "noise[k, c, j]",
        "noise[k, c, j] // 3",
        KICKED,
    ),
    Bug(
        "a third of the noise on a batch",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c] // 3)\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        BATCH_IN_FULL,
    ),
    Bug(
        "a third of Barker's noise",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c] // 3)\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        BARKER_IN_FULL,
    ),
    Bug(
        "a third of the unit in the rule of batches",
        "dpmcmc/kernels/arithmetic/rules.py",
        "penalty",
        "rule.unit * rule.rounding",
        "rule.unit / 3.0 * rule.rounding",
        BATCH_IN_FULL,
    ),
    Bug(
        "variance of a batch has no part in the noise",
        "dpmcmc/kernels/arithmetic/rules.py",
        "penalty",
        "rule.scale * widths + jumps",
        "rule.scale * widths",
        BATCH_IN_FULL,
    ),
    Bug(
        "a third of the unit in Barker's rule",
        "dpmcmc/kernels/arithmetic/rules.py",
        "barker",
        "rule.unit + 0.0 * widths",
        "rule.unit / 3.0 + 0.0 * widths",
        BARKER_IN_FULL,
    ),
    Bug(
        "a third of Barker's sd",
        "dpmcmc/samplers/dp_barker.py",
        "rule_of",
        "math.sqrt(room.fixed) / sd",
        "math.sqrt(room.fixed) / (3.0 * sd)",
        BARKER_IN_FULL,
    ),
    Bug(
        "noise of the first penalty step",
        "dpmcmc/kernels/compiled/penalty_steps.py",
        "penalty_steps",
        "noise[t, c]",
        "noise[0, c]",
        f"{DECIDED}[dp_penalty_component]",
    ),
    Bug(
        "noise of the first chain on batches",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, 0])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        f"{DECIDED}[dp_penalty_subsampled]",
    ),
    Bug(
        "Barker's noise of the first step",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        "if rule.kind == rules.PENALTY:\n"
        "    statistic, grid = penalty(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[t, c])\n"
        "    accepted = accepts(noisy, rule.sd * grid, public_ratio, auxiliary[0])\n"
        "else:\n"
        "    statistic, grid = barker(rule, summed, squared, width, auxiliary)\n"
        "    noisy = noised(statistic, grid, noise[0, c])\n"
        "    accepted = barker_accepts(rule, noisy, width, public_ratio, auxiliary)",
        f"{DECIDED}[dp_barker]",
    ),
    Bug(
        "gradient noise of the first step in paths",
        "dpmcmc/kernels/compiled/hmc_steps.py",
        "hmc_steps",
        "noise[t]",
        "noise[0]",
        KICKED,
    ),
    Bug(
        "gradient noise of the first leapfrog",
        "dpmcmc/kernels/compiled/hmc_steps.py",
        "leapfrog",
        "(k, c, j)",
        "(0, c, j)",
        KICKED,
    ),
    Bug(
        "sums not tempered as the sensitivity is",
        "dpmcmc/kernels/compiled/penalty_steps.py",
        "summed",
        "tempering * (cell * total)",
        "cell * total",
        f"{MODELS}::test_replacing_a_row_moves_no_sum_further_than_its_sensitivity[cut0-gaussian_mean]",
    ),
    Bug(
        "sensitivity tempered twice",
        "dpmcmc/kernels/compiled/penalty_steps.py",
        "summed",
        "tempering * (width + rounding)",
        "tempering * tempering * (width + rounding)",
        IN_FULL + "[guided-40.0]",
    ),
    Bug(
        "rounding of a sum not allowed for",
        "dpmcmc/kernels/compiled/penalty_steps.py",
        "summed",
        "width + rounding",
        "width",
        f"{EXTREMES}::test_a_sensitivity_allows_for_the_rounding_of_a_sum",
    ),
    Bug(
        "Barker's other normal not clamped",
        "dpmcmc/kernels/arithmetic/rules.py",
        "barker",
        "np.minimum(np.maximum(others[0], -MAX_FILLING_SDS), MAX_FILLING_SDS)",
        "others[0]",
        f"{NOISE}::test_no_row_moves_barkers_statistic_further_whatever_its_other_normal_is",
    ),
    Bug(
        "Barker takes moves that are too wide",
        "dpmcmc/kernels/arithmetic/rules.py",
        "barker_accepts",
        "(noisy + prior + others[1] > 0.0) & (widths <= rule.widest)",
        "(noisy + prior + others[1] > 0.0) | (widths < 0.0)",
        f"{NOISE}::test_barker_takes_no_move_that_is_wider_than_its_noise_covers",
    ),
    Bug(
        "Barker's noise without the grid's rounding",
        "dpmcmc/samplers/dp_barker.py",
        "widest_room",
        "noise.unit * noise.sd",
        "noise_multiplier",
        f"{NOISE}::test_barkers_noise_covers_its_sensitivity_with_all_its_roundings",
    ),
    Bug(
        "Barker's noise without the sum's rounding",
        "dpmcmc/samplers/dp_barker.py",
        "sensitivity",
        "rounding(batch) * (by_sum + by_filling)",
        "by_sum + by_filling",
        f"{NOISE}::test_barkers_noise_covers_its_sensitivity_with_all_its_roundings",
    ),
    Bug(
        "middle of the interval back in the squares",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "summed, squared, auxiliary = (unit * total, unit * unit * square, others[t, :, c])\n"
        "public_ratio = log_prior_ratio(public, here, there) + rule.scale * (rule.batch * middle)",
        "summed, auxiliary = (unit * total + rule.batch * middle, others[t, :, c])\n"
        "squared = unit * unit * square + 2.0 * middle * unit * total + rule.batch * "
        "middle * middle\n"
        "public_ratio = log_prior_ratio(public, here, there)",
        f"{EXTREMES}::test_the_variance_of_a_batch_does_not_know_where_its_interval_lies",
    ),
)

READING = (
    Bug(
        "ratios not held to their interval",
        "dpmcmc/kernels/compiled/cells.py",
        "cell",
        "u if u < half else half",
        "u",
        ROWS,
    ),
    Bug(
        "ratios held to twice their interval",
        "dpmcmc/kernels/compiled/cells.py",
        "cell",
        "u if u > -half else -half",
        "u if u > -2.0 * half else -2.0 * half",
        ROWS,
    ),
    Bug(
        "logistic gradients not clipped",
        "dpmcmc/kernels/compiled/families/logistic.py",
        "factors",
        "norm[i] if norm[i] > most else most",
        "most",
        f"{CLIPPED}[logistic]",
    ),
    Bug(
        "Poisson gradients not clipped",
        "dpmcmc/kernels/compiled/families/poisson.py",
        "factors",
        "size if size > clip else clip",
        "clip",
        f"{CLIPPED}[poisson]",
    ),
    Bug(
        "gradients clipped at twice the clip",
        "dpmcmc/kernels/compiled/families/linear.py",
        "factors",
        "size if size > clip else clip",
        "0.5 * size if 0.5 * size > clip else clip",
        f"{CLIPPED}[linear known]",
    ),
    Bug(
        "gradients with a log sd not clipped",
        "dpmcmc/kernels/compiled/families/linear.py",
        "factors_with_scale",
        "size if size > clip else clip",
        "clip",
        f"{CLIPPED}[linear]",
    ),
    Bug(
        "rows of means not cut",
        "dpmcmc/kernels/compiled/families/identity.py",
        "gaussian_gradients",
        "clip * scale / (size if size > clip else clip)",
        "scale",
        MEAN,
    ),
    Bug(
        "rounding of gradients not allowed for",
        "dpmcmc/families/rowwise.py",
        "RowTarget._scores",
        "clip - math.sqrt(d) * grid / self.tempering",
        "clip",
        f"{CLIPPED}[gaussian_mean]",
    ),
    Bug(
        "norms of rows not rounded up",
        "dpmcmc/families/rowwise.py",
        "RowTarget._scores",
        "np.nextafter(norm.astype(np.float32), np.float32(np.inf))",
        "norm.astype(np.float32)",
        f"{EXTREMES}::test_no_row_is_longer_than_the_norm_that_it_is_clipped_by",
    ),
    Bug(
        "rows leave their bounds in single precision",
        "dpmcmc/families/rowwise.py",
        "halved",
        "np.nextafter(single[too_far], np.float32(0.0))",
        "single[too_far]",
        f"{MODELS}::test_rows_in_half_of_the_memory_leave_no_bound",
    ),
    Bug(
        "a row counts once in a gradient's sensitivity",
        "dpmcmc/families/rowwise.py",
        "RowTarget._scores",
        "2.0 * bound",
        "bound",
        MEAN,
    ),
    Bug(
        "gradients not tempered as their sensitivity is",
        "dpmcmc/families/rowwise.py",
        "RowTarget._scores",
        "self.tempering * CLIP_MARGIN",
        "CLIP_MARGIN",
        MEAN,
    ),
    Bug(
        "rows as long as float64 allows",
        "dpmcmc/families/rowwise.py",
        "",
        "LARGEST_NORM = 1e+30",
        "LARGEST_NORM = 1e+100",
        f"{EXTREMES}::test_no_row_moves_a_gradient_further_in_any_coordinates",
    ),
    Bug(
        "all chains start at one point",
        "dpmcmc/samplers/starting.py",
        "chain_start_of",
        "draws[:chains]",
        "draws[:1].repeat(chains, axis=0)",
        "tests/core/test_starts.py"
        "::test_chains_start_at_draws_of_their_own_as_far_apart_as_the_release_is_wide",
    ),
    Bug(
        "half the noise on a mean",
        "dpmcmc/releases/noisy_mean.py",
        "released_sum",
        "release_sums(random, NOISY_MEAN, [sums], sensitivity, z)",
        "release_sums(random, NOISY_MEAN, [sums], 0.5 * sensitivity, z)",
        f"{OWN}::test_a_released_mean_counts_its_noise_in_full",
    ),
    Bug(
        "slope of a clipped mean not corrected",
        "dpmcmc/releases/noisy_mean_design.py",
        "clipped_moments",
        "(slope, max(variance / slope ** 2 - 1.0, 0.0))",
        "(1.0, max(variance / slope ** 2 - 1.0, 0.0))",
        "tests/core/test_noisy_mean.py::test_what_clipping_does_to_a_mean_is_as_simulated",
    ),
    Bug(
        "one batch for all steps",
        "dpmcmc/samplers/minibatch.py",
        "batch_steps",
        "batches(random, target.rows, rule.batch, steps * chains)",
        "batches(random, target.rows, rule.batch, chains).repeat(steps, 0)",
        BATCHES,
    ),
    Bug(
        "one batch for all chains",
        "dpmcmc/samplers/minibatch.py",
        "batch_steps",
        "batches(random, target.rows, rule.batch, steps * chains)",
        "batches(random, target.rows, rule.batch, steps).repeat(chains, 0)",
        BATCHES,
    ),
    Bug(
        "the first batch read in every step",
        "dpmcmc/kernels/compiled/batches.py",
        "minibatch_steps",
        "t * chains + c",
        "c",
        "tests/core/test_minibatch.py::test_each_decision_reads_its_own_batch",
    ),
    Bug(
        "batches with replacement",
        "dpmcmc/kernels/compiled/subsets.py",
        "collect",
        "ONE - (word >> bit & ONE)",
        "ONE",
        f"{SUBSETS}::test_batches_hold_distinct_rows[1000-499]",
    ),
    Bug(
        "words that favour some rows not refused",
        "dpmcmc/kernels/compiled/subsets.py",
        "rows_of",
        "product & LOW >= refused",
        "product & LOW >= U(0)",
        f"{SUBSETS}::test_equally_many_words_stand_for_every_row",
    ),
    Bug(
        "stale kernels",
        "dpmcmc/kernels/compiled/__init__.py",
        "key_of",
        "package.rglob('*.py')",
        "(package / 'kernels' / 'compiled').rglob('*.py')",
        "tests/core/test_kernel_cache.py::test_one_character_of_a_source_gives_another_key",
    ),
)

CHARGING = (
    Bug(
        "warm-up is free",
        "dpmcmc/samplers/penalty.py",
        "penalty_event",
        "options.num_steps * options.num_chains",
        "options.num_chains * (options.num_steps - (options.num_warmup or 0))",
        f"{WARMUP}[dp_penalty]",
    ),
    Bug(
        "warm-up on batches is free",
        "dpmcmc/samplers/minibatch.py",
        "minibatch_event",
        "options.num_steps * options.num_chains",
        "options.num_chains * (options.num_steps - (options.num_warmup or 0))",
        f"{WARMUP}[dp_barker]",
    ),
    Bug(
        "all chains for the price of one",
        "dpmcmc/samplers/minibatch.py",
        "minibatch_event",
        "options.num_steps * options.num_chains",
        "options.num_steps",
        f"{COUNTED}[dp_penalty_subsampled]",
    ),
    Bug(
        "the first gradient is free",
        "dpmcmc/samplers/hamiltonian.py",
        "hamiltonian_event",
        "steps * options.num_leapfrog + 1",
        "steps * options.num_leapfrog",
        f"{COUNTED}[dp_mala]",
    ),
    Bug(
        "a start is not in the event",
        "dpmcmc/samplers/starts.py",
        "with_event",
        "chain if start is None else Compose((event(start), chain))",
        "chain",
        f"{COUNTED}[dp_penalty after a start]",
    ),
    Bug(
        "a start with twice the budget that it is charged for",
        "dpmcmc/samplers/starting.py",
        "begun",
        "noisy_quadratic.released(rows, max_row_norm, options, z, random)",
        "noisy_quadratic.released(rows, max_row_norm, options, 0.5 * z, random)",
        f"{COUNTED}[dp_penalty after a start]",
    ),
    Bug(
        "only the last mean is charged",
        "dpmcmc/releases/noisy_mean.py",
        "event",
        "_multipliers(options, noise_multiplier)",
        "_multipliers(options, noise_multiplier)[-1:]",
        f"{COUNTED}[two noisy means]",
    ),
    Bug(
        "batches charged at the square of their rate",
        "dpmcmc/privacy/costs.py",
        "_leaf_rdp_float",
        "batch / rows",
        "(batch / rows) ** 2",
        COSTS,
    ),
    Bug(
        "losses of batches at the square of their rate",
        "dpmcmc/privacy/pld.py",
        "_distribution",
        "batch / rows",
        "(batch / rows) ** 2",
        COSTS,
    ),
    Bug(
        "roots of costs rounded down",
        "dpmcmc/privacy/gaussian.py",
        "root_up",
        "root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)",
        "root",
        "tests/core/test_accounting_gaussian.py::test_roots_are_rounded_as_their_names_say",
    ),
    Bug(
        "shares of delta rounded up",
        "dpmcmc/privacy/filter.py",
        "_share",
        "math.nextafter(product, 0) if Fraction(product) > exact else product",
        "product",
        f"{FILTER}::test_a_share_of_delta_is_never_more_than_its_part",
    ),
    Bug(
        "a repeated event charged once",
        "dpmcmc/privacy/costs.py",
        "_summed",
        "None if each is None else count * each",
        "each",
        "tests/core/test_planner.py"
        "::test_a_job_costs_the_root_of_all_steps_over_the_noise_multiplier",
    ),
    Bug(
        "jobs for other neighbours are planned",
        "dpmcmc/planner/planning.py",
        "noise_event",
        "schema.neighbouring is not Neighbouring.REPLACE_ONE",
        "schema.neighbouring is None",
        "tests/core/test_planner.py::test_empty_data_and_other_neighbours_are_refused",
    ),
    Bug(
        "replace-one charged as add or remove",
        "dpmcmc/privacy/filter.py",
        "entry_cost",
        "event.neighbouring != terms.neighbouring",
        "event.neighbouring is None",
        f"{FILTER}::test_another_relation_is_refused",
    ),
    Bug(
        "jobs that cost nothing are planned",
        "dpmcmc/planner/planning.py",
        "_check_cost",
        "not cost.epsilon > 0.0",
        "cost.epsilon < 0.0",
        f"{SITES}::test_a_job_that_costs_nothing_is_refused",
    ),
    Bug(
        "derived multipliers are not checked",
        "dpmcmc/planner/planning.py",
        "noise_event",
        "_check_noise(job_event)",
        "pass",
        f"{SITES}::test_a_derived_start_is_checked",
    ),
    Bug(
        "all of delta for the GDP branch",
        "dpmcmc/privacy/filter.py",
        "_gdp_limit",
        "_share(terms.delta, terms.gdp_weight)",
        "terms.delta",
        SHARES,
    ),
    Bug(
        "all of delta for each Rényi branch",
        "dpmcmc/privacy/filter.py",
        "_renyi_limit",
        "_share(terms.delta, weight)",
        "terms.delta",
        SHARES,
    ),
    Bug(
        "limits rounded up",
        "dpmcmc/privacy/filter.py",
        "units_down",
        "math.floor(value * (1 << FRACTION_BITS))",
        "math.ceil(value * (1 << FRACTION_BITS))",
        SHARES,
    ),
    Bug(
        "costs rounded down",
        "dpmcmc/privacy/filter.py",
        "units_up",
        "math.ceil(value * (1 << FRACTION_BITS))",
        "math.floor(value * (1 << FRACTION_BITS))",
        f"{FILTER}::test_a_cost_is_rounded_up_and_a_limit_down",
    ),
    Bug(
        "floats compared in place of units",
        "dpmcmc/privacy/filter.py",
        "_within",
        "total <= limit",
        "float(total) <= float(limit)",
        SHARES,
    ),
    Bug(
        "a delta of one in the rows is a promise",
        "dpmcmc/privacy/promises.py",
        "too_likely",
        "delta >= 1.0 / rows",
        "delta > 1.0 / rows",
        "tests/core/test_calls.py::test_no_plan_has_a_delta_of_one_in_the_rows",
    ),
    Bug(
        "a population has the rows of its largest dataset",
        "app/services/datasets/records.py",
        "units_on",
        "sum((row.units for row in session.scalars(select(DatasetRow).where(on_it))))",
        "max((row.units for row in session.scalars(select(DatasetRow).where(on_it))))",
        "tests/api/test_promises.py"
        "::test_a_delta_is_below_one_in_the_rows_of_a_population_together[sqlite]",
    ),
    Bug(
        "a budget may have any delta",
        "dpmcmc/fit/local.py",
        "checked_rows",
        'check_delta("/budget/delta", budget.delta, schema.units, schema.unit)',
        "pass",
        "tests/core/test_calls.py::test_no_call_takes_a_delta_of_one_in_the_rows[sample-budget-0.1]",
    ),
    Bug(
        "a permit opens twice",
        "dpmcmc/base/private.py",
        "Private.open",
        "permit.use()",
        "pass",
        "tests/core/test_run.py::test_a_permit_runs_once",
    ),
    Bug(
        "any source of randomness is taken",
        "dpmcmc/fit/local.py",
        "check_call",
        "callable(getattr(type(random), n, None))",
        "hasattr(random, n)",
        "tests/core/test_calls.py"
        "::test_another_source_of_randomness_is_refused[describe-a stand-in]",
    ),
    Bug(
        "noise of pure epsilon is made for more than is charged",
        "dpmcmc/queries/statistics/plans.py",
        "_laplace",
        "Laplace(z)",
        "Laplace(1.01 * z)",
        "tests/core/test_budget.py"
        "::test_what_is_charged_is_no_less_than_what_the_mechanism_does[1.0-laplace]",
    ),
    Bug(
        "Laplace noise costs less than its inverse",
        "dpmcmc/privacy/costs.py",
        "_leaf_pure",
        "1 / Fraction(leaf.noise_multiplier)",
        "1 / (2 * Fraction(leaf.noise_multiplier))",
        "tests/core/test_budget.py"
        "::test_what_is_charged_is_no_less_than_what_the_mechanism_does[1.0-laplace]",
    ),
    Bug(
        "threads spend a budget twice",
        "dpmcmc/fit/budget.py",
        "Budget.__init__",
        "self._lock = threading.Lock()",
        "self._lock = threading.Semaphore(1000)",
        "tests/core/test_budget.py::test_a_thread_waits_while_another_spends",
    ),
    Bug(
        "processes spend a budget twice",
        "dpmcmc/fit/budget.py",
        "_locked",
        "fcntl.flock(held, fcntl.LOCK_EX)",
        "pass",
        "tests/core/test_budget.py::test_processes_share_a_file_and_take_no_more_than_there_is",
    ),
    Bug(
        "a budget is spent once under each name of its file",
        "dpmcmc/fit/budget.py",
        "_is_still",
        "opened.st_nlink > 1",
        "False",
        "tests/core/test_budget.py::test_a_second_name_of_a_file_is_no_second_budget",
    ),
    Bug(
        "fewer values than a column's length are taken for all of them",
        "dpmcmc/fit/local.py",
        "_clamped_columns",
        "len(columns[column.name]) != rows",
        "False",
        "tests/core/test_calls.py::test_a_column_of_fewer_values_than_its_length_says_costs_nothing",
    ),
    Bug(
        "clipped gradients of long residuals are not judged",
        "dpmcmc/releases/dp_vi.py",
        "judge",
        "release.longest > 1.0",
        "False",
        "tests/core/test_dp_vi.py::test_a_fit_whose_rows_may_be_clipped_is_not_reliable",
    ),
    Bug(
        "variational fits of rare events are not judged",
        "dpmcmc/releases/dp_vi.py",
        "judge",
        "release.mean_slope < LEAST_SLOPE",
        "False",
        "tests/core/test_dp_vi.py::test_a_slope_of_few_events_is_judged",
    ),
    Bug(
        "an older file of a budget is taken for it",
        "dpmcmc/fit/budget.py",
        "Budget._read_file",
        "terms != self._terms or any(now < before for now, before in pairs)",
        "terms != self._terms",
        "tests/core/test_budget.py::test_an_older_file_is_not_taken_for_the_budget",
    ),
    Bug(
        "a forked process spends its parent's budget",
        "dpmcmc/fit/budget.py",
        "Budget._check_process",
        "os.getpid() == self._process",
        "self._process is not None",
        "tests/core/test_budget.py::test_a_forked_process_does_not_spend_what_its_parent_may_spend",
    ),
    Bug(
        "what has no bound costs nothing",
        "dpmcmc/privacy/filter.py",
        "_within",
        "limit is not None and unbounded == 0 and (total <= limit)",
        "limit is not None and total <= limit",
        f"{FILTER}::test_a_subsampled_entry_leaves_the_renyi_branch_only",
    ),
)

OPENING = (
    Bug(
        "subnormal rows are as slow as ever",
        "dpmcmc/kernels/subnormals.py",
        "flushed",
        "before | BITS",
        "before",
        "tests/core/test_subnormals.py::test_a_run_flushes_while_its_blocks_are_made_and_no_longer",
    ),
    Bug(
        "a token for another service lets its user in",
        "app/services/accounts/tokens.py",
        "Tokens._decoded",
        "jwt.decode(token, key, algorithms=list(ALGORITHMS), audience=audience, "
        "issuer=self._settings.oidc_issuer, "
        "leeway=self._settings.oidc_skew_seconds, options={'require': list(required)})",
        "jwt.decode(token, key, algorithms=list(ALGORITHMS), audience=['somebody-else', "
        "audience], issuer=self._settings.oidc_issuer, "
        "leeway=self._settings.oidc_skew_seconds, options={'require': list(required)})",
        "tests/api/test_tokens.py::test_what_is_not_good_is_401[wrong audience]",
    ),
    Bug(
        "a permit opens any dataset",
        "dpmcmc/base/private.py",
        "Private.open",
        "permit.subject != self.__subject",
        "permit.subject is None",
        "tests/privacy/test_types.py::test_a_permit_for_another_dataset_opens_nothing",
    ),
    Bug(
        "a permit opens for any event",
        "dpmcmc/fit/run.py",
        "run",
        "permit.event_digest != digest(event(schema, spec))",
        "permit.event_digest is None",
        "tests/core/test_run.py::test_a_permit_for_another_event_opens_nothing",
    ),
    Bug(
        "a fork reads rows on for the same payment",
        "dpmcmc/inputs/streamed.py",
        "Streamed.parts",
        "os.getpid() != self._process",
        "self._process is None",
        f"{STREAMED}::test_a_fork_does_not_read_on",
    ),
    Bug(
        "a fork has rows summed elsewhere for the same payment",
        "dpmcmc/inputs/streamed.py",
        "Streamed.summed",
        "self._elsewhere is None or os.getpid() != self._process",
        "self._elsewhere is None",
        f"{STREAMED}::test_a_fork_does_not_have_rows_summed_elsewhere",
    ),
    Bug(
        "a worker of a cluster reads rows after its order is over",
        "app/storage/cluster.py",
        "Order.check",
        "time.time() > self.until",
        "self.until is None",
        f"{CLUSTER}::test_an_order_that_ends_meanwhile_reads_no_further",
    ),
    Bug(
        "a sum of other rows counts as that of an order",
        "app/storage/cluster.py",
        "joint_sum",
        "zip(joint.numbers, sums, strict=True)",
        "zip(joint.numbers, sums, strict=False)",
        f"{CLUSTER}::test_a_sum_counts_as_that_of_its_own_order_alone",
    ),
    Bug(
        "a cluster on other machines is spoken to in clear",
        "app/settings.py",
        "Settings._closed_cluster",
        """host not in ("127.0.0.1", "::1", "localhost")""",
        "host is None",
        f"{CLUSTER}::test_a_cluster_elsewhere_needs_tls_and_a_key[tcp://10.0.0.1:8786-{64 * 'a'}]",
    ),
    Bug(
        "rows that came while a release reads them are summed",
        "dpmcmc/inputs/streamed.py",
        "Streamed.parts",
        "rows != self.rows",
        "rows < self.rows",
        f"{STREAMED}::test_rows_that_came_or_went_meanwhile_are_refused[-1]",
    ),
    Bug(
        "rows are counted twice once a store is back",
        "app/storage/files.py",
        "RowReader._patiently",
        "done += 1",
        "done += 0",
        "tests/storage/test_files.py"
        "::test_a_pass_goes_on_where_it_was_once_the_store_is_back[folder]",
        error="ValueError: zip() argument 2 is longer than argument 1",
    ),
    Bug(
        "columns of a chunk are encrypted under one nonce",
        "app/storage/files.py",
        "_Seal._place",
        "number.to_bytes(8) + block.to_bytes(4)",
        "number.to_bytes(12)",
        "tests/storage/test_files.py::test_no_two_parts_of_a_file_have_a_nonce_in_common[folder]",
    ),
    Bug(
        "rows lie readable in the temporary file",
        "dpmcmc/inputs/spooled.py",
        "_Spool.add",
        "self._cipher.encrypt(self._sealed.to_bytes(12), values.tobytes(), None)",
        "values.tobytes() + bytes(16)",
        "tests/core/test_batches.py::test_what_lies_in_the_temporary_file_tells_nothing",
    ),
    Bug(
        "private rows can be pickled",
        "dpmcmc/base/private.py",
        "Private",
        "__reduce_ex__ = __iter__ = __bool__ = __len__ = __getitem__ = _refuse",
        "__iter__ = __bool__ = __len__ = __getitem__ = _refuse\n"
        "def __reduce_ex__(self, _):\n"
        "    return (Released, (self.__value,))",
        "tests/privacy/test_types.py::test_private_refuses_every_other_way_in",
    ),
    Bug(
        "private rows are printed",
        "dpmcmc/base/private.py",
        "Private.__repr__",
        "return '<Private>'",
        "return f'<Private {self.__value}>'",
        "tests/privacy/test_types.py::test_private_shows_nothing_of_itself",
    ),
    Bug(
        "an error names a value",
        "dpmcmc/fit/local.py",
        "_codes",
        "f'column {column.name!r} has values outside its categories: {declared}'",
        "f'column {column.name!r} has {set(words) - set(codes)}: {declared}'",
        "tests/core/test_run.py::test_data_that_do_not_suit_the_schema_are_refused_without_their_values",
    ),
    Bug(
        "progress tells of the rows",
        "dpmcmc/fit/run.py",
        "_blocks",
        "block_length(read, target.position.shape[1], options.num_chains, left)",
        "1 + int(np.abs(target.gradient(target.position, 1.0)[0]).sum() * 1000.0) % left",
        "tests/core/test_run.py::test_blocks_do_not_depend_on_rows",
    ),
    Bug(
        "the last job of a budget is one too many",
        "app/ledger/account.py",
        "_reserved",
        "head.terms.accepts(moved.held)",
        "head.terms.accepts(head.held)",
        f"{ACCOUNT}::test_a_budget_for_ten_jobs_pays_for_ten[sqlite]",
    ),
    Bug(
        "a permit without a debit",
        "app/ledger/account.py",
        "post",
        "'post' not in settled[head.dataset_id]",
        "'post' in settled[head.dataset_id]",
        f"{ACCOUNT}::test_reservations_and_posts_are_kept_apart_and_count_alike[sqlite]",
    ),
    Bug(
        "a job is debited twice",
        "app/ledger/account.py",
        "post",
        "'post' not in settled[head.dataset_id]",
        "settled",
        f"{ACCOUNT}::test_a_post_pays_once_however_often_it_is_repeated[sqlite]",
        error="sqlalchemy.exc.IntegrityError",
    ),
    Bug(
        "a voided job is paid for by nobody",
        "app/ledger/account.py",
        "post",
        "'void' in entries",
        "'never' in entries",
        f"{ACCOUNT}::test_a_voided_reservation_is_given_back_and_cannot_be_posted[sqlite]",
        error="sqlalchemy.exc.IntegrityError",
    ),
    Bug(
        "a posted debit is given back",
        "app/ledger/account.py",
        "void",
        "claimed or any(('post' in entries for entries in settled.values()))",
        "claimed",
        f"{ACCOUNT}::test_nothing_is_given_back_after_a_post_or_a_claim[sqlite]",
        error="sqlalchemy.exc.IntegrityError",
    ),
    Bug(
        "a claimed job is given back",
        "app/ledger/account.py",
        "void",
        "claimed or any(('post' in entries for entries in settled.values()))",
        "any(('post' in entries for entries in settled.values()))",
        f"{ACCOUNT}::test_nothing_is_given_back_after_a_post_or_a_claim[sqlite]",
    ),
    Bug(
        "an allotment is not debited",
        "app/ledger/account.py",
        "_allotted",
        "Allotment(allotment.epsilon, held)",
        "allotment",
        f"{ACCOUNT}::test_an_allotment_caps_one_analyst_under_the_datasets_cap[sqlite]",
    ),
    Bug(
        "destroyed rows can be paid for",
        "app/ledger/account.py",
        "post",
        "head.status == 'destroyed'",
        "head.status == 'never'",
        f"{ACCOUNT}::test_a_destroyed_dataset_pays_for_nothing_any_more[sqlite]",
    ),
    Bug(
        "a pooled job is debited to no holder",
        "app/ledger/account.py",
        "",
        "(DATASETS.c.id == bindparam('named')) | (DATASETS.c.pool_id == bindparam('named'))",
        "DATASETS.c.id == bindparam('named')",
        f"{HOLDERS}::test_a_holders_job_costs_its_own_ledger_and_a_pooled_one_all[sqlite]",
    ),
    Bug(
        "a holder's rewound ledger is not looked at",
        "app/ledger/ends.py",
        "ends_of",
        "[end_of(session, dataset_id), *(_end(row) for row in holders)]",
        "[end_of(session, dataset_id)] if holders else []",
        f"{HOLDERS}::test_a_holders_rewound_ledger_stops_pooled_jobs",
    ),
    Bug(
        "rows are opened before they are paid for",
        "worker/run.py",
        "_claim",
        "permit, ends = _paid(services, session, job) if runnable_job.pays else (None, ())",
        "services.vault.files.load(dataset, holders)\n"
        "permit, ends = _paid(services, session, job) if runnable_job.pays else (None, ())",
        "tests/worker/test_run.py::test_an_unpaid_job_never_opens_rows[sqlite]",
    ),
    Bug(
        "a log tells what a row made fail",
        "worker/run.py",
        "_work",
        "log.error('job_failed', exception=type(error).__name__, where=logs.where(error))",
        "log.error('job_failed', exception=str(error), where=logs.where(error))",
        "tests/worker/test_run.py"
        "::test_a_sampler_that_raises_fails_the_job_for_good_and_tells_nothing[sqlite]",
    ),
)

JOINT = "tests/privacy/test_joint_sums.py"
CLIPS = "tests/core/test_clips.py"
NEIGHBOURS = f"{JOINT}::test_no_neighbour_is_further_away_than_is_paid_for"
SUMS, EXACT = "dpmcmc/mechanisms/joint_sums.py", "dpmcmc/mechanisms/sums.py"
IN_SUMS = "tests/privacy/test_sums.py"

ARROWS, GROUPS = "dpmcmc/mechanisms/arrow_sums.py", "tests/core/test_groups.py"

RELEASING = (
    Bug(
        "a row counts once in a score of groups",
        ARROWS,
        "ArrowCaps.units",
        "2.0 * self.score",
        "self.score",
        f"{GROUPS}::test_no_replaced_row_moves_a_joint_step_by_more_than_it_is_charged[1]",
    ),
    Bug(
        "a row that moves to another group counts once",
        ARROWS,
        "ArrowCaps.units",
        "double * self.curvature",
        "self.curvature",
        f"{GROUPS}::test_a_row_that_moves_to_another_group_attains_what_a_matrix_is_charged",
    ),
    Bug(
        "slopes of groups do not count in the length of a row",
        ARROWS,
        "_cells",
        'np.einsum("km,km->m", own, own)',
        "own[0] * own[0]",
        f"{GROUPS}::test_no_replaced_row_moves_a_joint_step_by_more_than_it_is_charged[2]",
    ),
    Bug(
        "rows that are left out add to steps at groups",
        ARROWS,
        "_cells",
        "(block.counted > 0.0) & (block.cells >= 0)",
        "(block.cells >= 0)",
        f"{GROUPS}::test_a_joint_step_adds_up_what_rows_say_where_nothing_is_cut[1]",
    ),
    Bug(
        "a row counts once in all counts of long scores of groups",
        ARROWS,
        "ArrowCaps.units",
        "math.sqrt(max(len(self.lengths), 1))",
        "1.0",
        f"{GROUPS}::test_each_part_of_a_joint_step_alone_is_charged_for_its_worst_rows[3-1.0]",
    ),
    Bug(
        "rounding of sums of groups not allowed for",
        ARROWS,
        "release",
        "1.0 + rounding(size[0] + size[1] * size[2], rows)",
        "1.0",
        f"{GROUPS}::test_noise_of_a_joint_step_has_room_for_the_rounding_of_its_sums",
    ),
    Bug(
        "numbers of rows of groups are rounded up",
        ARROWS,
        "_cells",
        "float(present.sum()) * math.trunc(scale / units[4])",
        "float(present.sum()) * math.ceil(scale / units[4])",
        f"{GROUPS}::test_counts_of_a_joint_step_are_rounded_down[4]",
    ),
    Bug(
        "squared residuals of groups cut at twice their cap",
        ARROWS,
        "_cells",
        "scalar_cells(square, caps.square, scale / units[2])",
        "scalar_cells(square, 2.0 * caps.square, scale / units[2])",
        f"{GROUPS}::test_each_part_of_a_joint_step_alone_is_charged_for_its_worst_rows"
        "[2-0.7071067811865476]",
    ),
    Bug(
        "parts of a joint step may be more than the event",
        ARROWS,
        "_check",
        "math.fsum(caps.shares) <= 1.0",
        "math.fsum(caps.shares) <= 2.0",
        f"{GROUPS}::test_parts_of_a_joint_step_beyond_the_whole_event_get_no_noise",
    ),
    Bug(
        "one of the joint steps is not charged",
        "dpmcmc/releases/grouped.py",
        "event",
        "Repeat(Gaussian(far), steps)",
        "Repeat(Gaussian(far), 1)",
        f"{GROUPS}::test_with_hardly_any_noise_effects_are_those_of_the_mode[logistic]",
        error="ValueError: this noise is not the next that was paid for",
    ),
    Bug(
        "means stay averaged over what the step before told of groups",
        "dpmcmc/releases/grouped.py",
        "_settled",
        "released.averaged_over(part.variances(), part.curve.cells[0, 0])",
        "released",
        f"{GROUPS}::test_means_are_averaged_over_what_the_release_tells_of_predictors[logistic]",
    ),
    Bug(
        "a log mean is that at all of the variance more",
        "dpmcmc/releases/grouped_posterior.py",
        "Arrow.moves_for",
        "0.5 * (self.averaged**2 - variances)",
        "self.averaged**2 - variances",
        f"{GROUPS}::test_means_stay_where_predictors_are_averaged_over_other_variances[log-1e-12]",
    ),
    Bug(
        "a row counts once in a joint score",
        SUMS,
        "Caps.units",
        "2.0 * self.score",
        "self.score",
        f"{JOINT}::test_the_worst_neighbours_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "joint matrices without their root of 2",
        SUMS,
        "Caps.units",
        "math.sqrt(2.0)",
        "1.0",
        f"{JOINT}::test_the_worst_neighbours_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "vectors of a joint event not cut",
        EXACT,
        "vector_cells",
        "clip_factor(size, cap)",
        "np.ones_like(size)",
        f"{NEIGHBOURS}[1000.0]",
    ),
    Bug(
        "matrices of a joint event not cut",
        EXACT,
        "matrix_cells",
        "clip_factor(size, cap)",
        "np.ones_like(size)",
        f"{NEIGHBOURS}[1000.0]",
    ),
    Bug(
        "what a curvature has below zero is not charged",
        SUMS,
        "Caps.units",
        "math.hypot(self.curvature, self.minus)",
        "self.curvature",
        f"{JOINT}::test_the_worst_differences_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "what a curvature has below zero is not clipped",
        EXACT,
        "matrix_cells",
        "clip_factor(taken, most)",
        "1.0",
        f"{JOINT}::test_what_is_taken_off_is_nothing_where_no_cap_allows_it",
    ),
    Bug(
        "what a curvature has below zero is clipped on its own",
        EXACT,
        "matrix_cells",
        "clip_factor(size + taken, cap)",
        "clip_factor(size, cap)",
        f"{JOINT}::test_what_is_taken_off_counts_in_what_a_row_may_add[1.0]",
    ),
    Bug(
        "scalars of a joint event not cut",
        EXACT,
        "scalar_cells",
        "np.fmin(np.fmax(values, 0.0), cap)",
        "np.fmax(values, 0.0)",
        f"{NEIGHBOURS}[1000.0]",
    ),
    Bug(
        "rounding of a joint event not allowed for",
        SUMS,
        "release",
        "1.0 + rounding(dimension, rows)",
        "1.0",
        f"{JOINT}::test_the_sensitivity_allows_for_rounding",
    ),
    Bug(
        "less noise in a joint event",
        SUMS,
        "release",
        "1.0 + rounding(dimension, rows)",
        "0.8 * (1.0 + rounding(dimension, rows))",
        f"{JOINT}::test_neighbours_are_mu_apart_and_no_more",
    ),
    Bug(
        "a unit of several rows charged as one row",
        EXACT,
        "release_sums",
        "unit_rows * sensitivity",
        "sensitivity",
        f"{IN_SUMS}::test_neighbours_of_a_unit_are_as_far_apart_as_is_charged[2]",
    ),
    Bug(
        "rows rounded to the nearest cell",
        EXACT,
        "whole",
        "np.trunc(cells, out=cells)",
        "np.rint(cells, out=cells)",
        f"{IN_SUMS}::test_what_is_rounded_is_never_longer_than_its_cap",
    ),
    Bug(
        "blocks add numbers that are not whole",
        EXACT,
        "whole",
        "np.trunc(cells, out=cells)",
        "cells",
        f"{IN_SUMS}::test_sums_of_blocks_are_added_by_any_tree",
    ),
    Bug(
        "shares of a joint event add up to more than 1",
        SUMS,
        "_check",
        "math.fsum(caps.shares) <= 1.0",
        "math.fsum(caps.shares) <= 2.0",
        f"{JOINT}::test_what_the_proof_does_not_cover_is_refused_before_a_row_is_read[2-5-caps3-1.0]",
    ),
    Bug(
        "directions stretched for ever whose rows are weighted down",
        "dpmcmc/releases/quadratic_steps.py",
        "rescaled",
        "np.maximum(values, np.minimum(had, most))",
        "values",
        "tests/core/test_quadratic_steps.py::test_a_direction_whose_rows_are_weighted_down_is_not_stretched",
    ),
    Bug(
        "counts that vary more than the model says are taken to reach as far as its own",
        "dpmcmc/releases/reach.py",
        "farthest",
        "min(ends[1], _largest_count(rate, family.variance.size)) if scale < CALM else ends[1]",
        "min(ends[1], _largest_count(rate, family.variance.size))",
        "tests/core/test_clips.py"
        "::test_how_far_a_score_can_be_follows_from_public_ends_and_released_numbers",
    ),
    Bug(
        "the part of a curvature is that of a usual cap, and not of the one that is taken",
        "dpmcmc/releases/clips.py",
        "choose",
        "TRIED_CURVES[k] * blur / worst_noise",
        "0.0 * blur",
        "tests/core/test_clips.py"
        "::test_a_cap_of_curvatures_that_lies_far_out_has_a_part_of_its_own",
    ),
    Bug(
        "the reach of scores is read off the rows",
        "dpmcmc/releases/newton_path.py",
        "_Path._farthest",
        "return min(length * many / self._usual, longest)",
        "return float(problem.data.y.max())",
        f"{CLIPS}::test_the_reach_does_not_follow_the_rows",
    ),
    Bug(
        "the longest that a score can be is read off the rows",
        "dpmcmc/releases/newton_path.py",
        "_Path._longest",
        "return longest * self._most_of_rows",
        "return float(problem.data.y.max())",
        f"{CLIPS}::test_the_reach_does_not_follow_the_rows",
    ),
    Bug(
        "scores are taken to be no longer than at the middle of their bounds",
        "dpmcmc/releases/reach.py",
        "across",
        "np.where(upper, high[loose, None], low[loose, None])",
        "0.5 * (high + low)[loose, None]",
        f"{CLIPS}::test_no_score_is_longer_than_public_bounds_allow[3-logistic]",
    ),
    Bug(
        "the variance of a row that counts as several has the square of its weight",
        "dpmcmc/families/scores/given.py",
        "copies_of",
        'return y[:, 2] if isinstance(family, Given) and family.link != "identity" else None',
        "return None",
        "tests/core/test_given.py::test_offsets_and_weights_are_those_of_a_fit_without_privacy"
        "[poisson-visits ~ age + group + offset(log(years))-copies-model]",
    ),
    Bug(
        "a row is added for more than its part of a layer",
        "dpmcmc/releases/clips.py",
        "filled",
        "np.fmin(np.fmax(part, 0.0), 1.0)",
        "np.fmin(np.fmax(part, 0.0), 3.0)",
        f"{CLIPS}::test_a_row_fills_at_most_what_the_event_is_charged_for[9.0]",
    ),
    Bug(
        "the event of layers does not pay for weights by their width",
        "dpmcmc/releases/clips.py",
        "layers",
        "np.linalg.norm(flat)",
        "math.sqrt(1.0 - far)",
        f"{CLIPS}::test_a_row_fills_at_most_what_the_event_is_charged_for[400.0]",
    ),
    Bug(
        "the noise of the reach excludes nothing",
        "dpmcmc/releases/reach.py",
        "Reach.most",
        "EXCLUDED * sds",
        "0.0 * sds",
        f"{CLIPS}::test_no_clip_leaves_out_more_than_is_told[30.0-a lump]",
    ),
    Bug(
        "layers count by their number, and not by how wide they are",
        "dpmcmc/releases/reach.py",
        "Reach.cut_off",
        "self.part @ wide",
        "self.part @ np.sign(wide)",
        f"{CLIPS}::test_the_reach_is_what_clips_leave_out_where_there_is_no_noise",
    ),
    Bug(
        "iterates of the Newton path charged once",
        "dpmcmc/releases/newton_path.py",
        "event",
        "Repeat(Gaussian(z / math.sqrt(parts[0])), num_far)",
        "Repeat(Gaussian(z / math.sqrt(parts[0])), 1)",
        f"{COUNTED}[noisy_quadratic of logistic]",
        error="ValueError: this noise is not the next that was paid for",
    ),
    Bug(
        "half of the gradients of variational inference charged",
        "dpmcmc/releases/dp_vi.py",
        "event",
        "2 * d",
        "d",
        f"{COUNTED}[dp_vi of logistic]",
    ),
    Bug(
        "rounds of a whitening charged once",
        "dpmcmc/releases/whitening.py",
        "event",
        "Repeat(Gaussian(noise_multiplier * math.sqrt(ITERATIONS)), ITERATIONS)",
        "Gaussian(noise_multiplier * math.sqrt(ITERATIONS))",
        f"{COUNTED}[noisy_quadratic of poisson]",
        error="ValueError: this noise is not the next that was paid for",
    ),
    Bug(
        "a whitening that is not charged for is drawn",
        "dpmcmc/releases/noisy_quadratic.py",
        "publish",
        "options.paid != (rows.white is not None)",
        "False",
        "tests/core/test_reuse.py"
        "::test_what_is_drawn_and_what_is_charged_agree_where_noise_is_drawn[True]",
    ),
    Bug(
        "every name of a whitening counts as paid for",
        "dpmcmc/releases/reuse.py",
        "reused",
        "named not in {release.name for release in same}",
        "False",
        "tests/core/test_reuse.py::test_a_name_that_is_not_of_these_columns_is_refused[earlier0]",
    ),
    Bug(
        "another analyst's whitening is used again",
        "app/services/jobs/kinds/chains.py",
        "",
        "select(JobRow.id, JobRow.created_at, JobRow.resolved).where(JobRow.user_id == "
        "bindparam('analyst'), JobRow.dataset_id == bindparam('dataset'), JobRow.status "
        "== 'succeeded', exists().where(ReleaseRow.job_id == JobRow.id))",
        "select(JobRow.id, JobRow.created_at, JobRow.resolved).where(JobRow.dataset_id "
        "== bindparam('dataset'), JobRow.status == 'succeeded', "
        "exists().where(ReleaseRow.job_id == JobRow.id))",
        "tests/api/test_whitenings.py::test_another_analysts_whitening_is_neither_used_nor_known",
    ),
    Bug(
        "a whitening is used in the order of its own columns",
        "dpmcmc/releases/reuse.py",
        "in_order",
        "[columns.index(column) for column in _columns(wanted)]",
        "list(range(len(columns)))",
        "tests/core/test_reuse.py::test_columns_are_put_in_order",
    ),
    Bug(
        "chains under another prior are believed however much they remember",
        "dpmcmc/posterior/stored.py",
        "StoredRelease._sampled",
        "not walk.r_hat <= MAX_RHAT",
        "False",
        "tests/core/test_free_posteriors.py"
        "::test_two_modes_between_which_nothing_goes_are_not_believed",
    ),
    Bug(
        "secants of counts as steep as rounding has them",
        "dpmcmc/families/poisson.py",
        "secant",
        "np.minimum(psi / np.where(agree, apart, 1.0), steepest)",
        "psi / np.where(agree, apart, 1.0)",
        "tests/core/test_counts.py"
        "::test_no_secant_is_steeper_than_the_tangents_that_it_lies_between[poisson-None]",
    ),
    Bug(
        "a variance of scores that noise hides is taken for known",
        "dpmcmc/releases/quadratic_verdict.py",
        "_clear",
        "release.inflation_sd > MAX_INFLATION_SD",
        "release.inflation_sd > 9.0",
        "tests/core/test_noisy_quadratic.py"
        "::test_how_scores_vary_counts_in_so_far_as_it_stands_out_of_its_noise"
        "[0.9-1.1-noise]",
    ),
    Bug(
        "few rows do for lines whose curvature noise may have made",
        "dpmcmc/releases/quadratic_verdict.py",
        "_informed",
        "_of_lines(release) and information >= least and (not _dim(release))",
        "_of_lines(release) and information >= least",
        "tests/core/test_noisy_quadratic.py"
        "::test_fewer_rows_do_for_lines_whose_curvature_is_clear[linear-29.0-1.9-False]",
    ),
    Bug(
        "few far rows decide a reliable answer",
        "dpmcmc/releases/quadratic_verdict.py",
        "_leverage",
        "release.inflation - release.inflation_sd > MAX_INFLATION",
        "release.inflation - release.inflation_sd > 9.0",
        "tests/core/test_noisy_quadratic.py"
        "::test_a_linear_answer_that_few_far_rows_decide_is_unreliable",
    ),
    Bug(
        "negative binomial counts are centred as Poisson ones",
        "dpmcmc/families/poisson.py",
        "_parts",
        "1.0 + j * inverse_size",
        "1.0 + 0.0 * j",
        "tests/core/test_counts.py"
        "::test_moments_of_clipped_counts_are_sums_over_all_counts[2.2-negative binomial]",
    ),
    Bug(
        "clipped scores of gamma regression are not centred",
        "dpmcmc/families/gamma.py",
        "Gamma.terms",
        "np.clip(u, low, high) - mean",
        "np.clip(u, low, high) - 1.0",
        "tests/core/test_gamma.py"
        "::test_clipped_scores_have_mean_zero_and_keep_within_their_caps[1.0]",
    ),
    Bug(
        "clipped scores of cases among trials are not centred",
        "dpmcmc/families/binomial.py",
        "Binomial.terms",
        "np.clip(cases, low, high) - mean - off",
        "np.clip(cases, low, high) - mean",
        "tests/core/test_binomial.py"
        "::test_clipped_scores_have_mean_zero_and_keep_within_their_caps[12-0.05]",
    ),
    Bug(
        "an event after the time at which a row is cut counts",
        "dpmcmc/families/exponential.py",
        "Exponential.terms",
        "y * (hazard <= end) - cut",
        "y - cut",
        "tests/core/test_exponential.py"
        "::test_clipped_scores_have_mean_zero_and_keep_within_their_caps[none-1.0]",
    ),
    Bug(
        "an event after the time at which a Weibull row is cut counts",
        "dpmcmc/families/weibull.py",
        "Weibull.terms",
        "ended * (z <= last)",
        "ended",
        "tests/core/test_weibull.py"
        "::test_scores_have_mean_zero_and_the_variance_that_is_said_wherever_times_are_cut"
        "[none-1.0]",
    ),
    Bug(
        "a dispersion that leaves out what a count is expected to tell",
        "dpmcmc/families/negative_binomial.py",
        "AnyDispersion.score",
        "scale * logs + gain * (mean - y)",
        "scale * logs",
        "tests/core/test_negative_binomial.py"
        "::test_a_count_says_the_gradient_of_its_log_likelihood_and_what_it_tells[0.5-2.0]",
    ),
    Bug(
        "zeros that pull the rate of counts above 0",
        "dpmcmc/families/hurdle_poisson.py",
        "HurdlePoisson.terms",
        "np.stack((positive * (y - mean), 1.0 - positive - zero))",
        "np.stack((y - mean, 1.0 - positive - zero))",
        "tests/core/test_hurdle_poisson.py::test_one_row_has_one_vector_for_both_parts",
    ),
    Bug(
        "what a share tells of its mean and of its dispersion taken apart",
        "dpmcmc/families/beta.py",
        "Beta.terms",
        "root[1, 0] = information[2] / root[0, 0]",
        "root[1, 0] = 0.0 * information[2] / root[0, 0]",
        "tests/core/test_beta.py"
        "::test_a_share_says_the_gradient_of_its_log_likelihood_and_what_it_tells[1.0-6.0]",
    ),
    Bug(
        "priors that bounds made too narrow are believed",
        "dpmcmc/posterior/stored.py",
        "StoredRelease._conflict",
        "not worst or self._nonlinear",
        "True",
        "tests/core/test_prior_conflict.py"
        "::test_an_intercept_that_bounds_took_far_away_is_told_with_its_column",
    ),
    Bug(
        "clips are taken to leave out nothing of rows at far bounds",
        "dpmcmc/releases/far_columns.py",
        "bias",
        "PER_SQUARE * np.maximum(far**2 - NEAR**2, 0.0)",
        "0.0 * far",
        "tests/core/test_far_columns.py::test_bias_lies_along_the_column_whose_bound_is_far",
    ),
    Bug(
        "what far bounds allow for hides that a prior is far from the rows",
        "dpmcmc/releases/prior_conflict.py",
        "pulls",
        "not release.by_columns",
        "True",
        "tests/core/test_prior_conflict.py::test_bias_along_far_bounds_hides_no_conflict",
    ),
    Bug(
        "a t prior has a degree of freedom too few",
        "dpmcmc/posterior/free/priors.py",
        "_precision",
        "df + 1.0",
        "df",
        "tests/core/test_free_walk.py::test_draws_are_from_likelihood_times_prior",
    ),
    Bug(
        "a row that is left out adds to ratios",
        "dpmcmc/kernels/compiled/cells.py",
        "counted",
        "part if y == y else 0.0",
        "part if y == y else 1.0",
        f"{LEFT_OUT}::test_a_row_that_is_left_out_changes_no_ratio[0.1-gaussian_mean]",
    ),
    Bug(
        "a number of rows with less noise in joint sums",
        SUMS,
        "",
        "COUNT_SCALE = math.sqrt(2.0)",
        "COUNT_SCALE = 1.0",
        f"{LEFT_OUT}::test_a_number_of_rows_rides_along_with_joint_sums_for_free",
    ),
    Bug(
        "a number of rows with less noise in noisy means",
        "dpmcmc/releases/noisy_mean.py",
        "",
        "COUNT_WEIGHT = 0.866",
        "COUNT_WEIGHT = 0.95",
        f"{LEFT_OUT}::test_a_number_of_rows_rides_along_with_noisy_means_for_free",
    ),
)

ANSWERING = (
    Bug(
        "every planner takes dear plans",
        "app/services/planning/processes.py",
        "lanes_of",
        "(True,) if number == 0 and of > 1 else (False, True)",
        "(False, True)",
        "tests/api/test_planning.py::test_what_is_quick_never_waits_for_what_is_not",
    ),
    Bug(
        "a queue that wakes nobody",
        "app/services/queue/sqlite_transport.py",
        "Channel._put",
        "ring(self._path)",
        "pass",
        "tests/worker/test_bell.py::test_a_message_is_taken_at_once_by_who_waits_for_it",
    ),
    Bug(
        "the queue's age to the microsecond, and with it how long jobs ran",
        "app/services/metrics.py",
        "_queue_age",
        "AGE_STEP * max(0.0, waited // AGE_STEP)",
        "max(0.0, waited)",
        "tests/api/test_observability.py::test_the_queues_age_is_told_in_steps",
    ),
)

FORMULAS = "tests/core/test_formulas.py"
DESIGNING = (
    Bug(
        "splines and polynomials on the range of the rows",
        "dpmcmc/formula/bases.py",
        "_values",
        "(knots[0], knots[-1])",
        "(float(np.nanmin(x)), float(np.nanmax(x)))",
        f"{FORMULAS}::test_rows_that_two_tables_share_have_the_same_design[poly(age, 3)*group]",
    ),
    Bug(
        "rows longer than a design says",
        "dpmcmc/formula/columns.py",
        "Columns._square",
        "square *= variable.square",
        "square *= 1.0",
        f"{FORMULAS}::test_every_row_lies_within_its_public_bounds_and_norm"
        "[False-poly(age, 3)*group]",
    ),
    Bug(
        "weighted rows cut as if they had no weight",
        "dpmcmc/families/scores/given.py",
        "Given.terms",
        "least * at.row_norm",
        "at.row_norm",
        "tests/core/test_given.py::test_no_weight_makes_a_row_say_more_than_any_row_may[poisson]",
    ),
    Bug(
        "an intercept of the wrong place",
        "dpmcmc/formula/columns.py",
        "Columns.mixing",
        "-centred[v]",
        "centred[v]",
        "tests/core/test_units.py"
        "::test_both_scales_have_the_same_predictors[age*group + `body mass`]",
    ),
)

CLASSES = "tests/core/test_multinomial.py"

SEVERAL = (
    Bug(
        "one class's curvature charged for all",
        EXACT,
        "matrix_cells",
        "size = sum_of_squares(roots, each, loops)",
        "size = loops.squares(roots[-1])",
        f"{CLASSES}::test_the_worst_rows_of_several_classes_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "a row weighted by its own response",
        "dpmcmc/families/multinomial.py",
        "Multinomial.terms",
        "sizes - 2.0 * along",
        "(sizes - 2.0 * along) * (y == 1.0)",
        f"{CLASSES}::test_under_the_model_a_row_says_nothing_on_average_however_it_is_weighted[1.0]",
    ),
    Bug(
        "a slope without the reference",
        "dpmcmc/families/multinomial.py",
        "root_of",
        "q / (1.0 + np.sqrt(first))",
        "q",
        f"{CLASSES}::test_a_row_says_the_gradient_of_its_log_likelihood",
    ),
    Bug(
        "coefficients named by column first",
        "dpmcmc/families/multinomial.py",
        "parameters",
        "[f'{word}:{column}' for word in others for column in design.parameters]",
        "[f'{word}:{column}' for column in design.parameters for word in others]",
        f"{CLASSES}::test_a_job_names_coefficients_by_category_and_column",
    ),
    Bug(
        "cuts that a step may put out of order",
        "dpmcmc/releases/ordered.py",
        "in_order",
        "np.maximum(np.diff(after[:cuts]), LEFT * np.diff(before[:cuts]))",
        "np.diff(after[:cuts])",
        "tests/core/test_ordinal.py::test_cuts_stay_in_order_whatever_a_step_says",
    ),
    Bug(
        "a pull on the upper cut of a category alone",
        "dpmcmc/families/ordinal.py",
        "slopes_of",
        "below[:-1] -= pull",
        "below[:-1] -= 0.0 * pull",
        "tests/core/test_ordinal.py::test_a_row_says_the_gradient_of_its_log_likelihood",
    ),
    Bug(
        "a chain takes rows with several predictors",
        "dpmcmc/planner/resolve.py",
        "chains_know",
        "not MODELS[family].chains",
        "MODELS[family].chains is None",
        f"{CLASSES}::test_chains_are_refused_with_the_name_of_what_is_not[dp_penalty]",
    ),
)

STATISTICS = "tests/privacy/test_statistics.py"
CLAIMED = f"{STATISTICS}::test_released_numbers_have_the_claimed_noise_and_not_a_tenth_less"
ORDERED = f"{STATISTICS}::test_order_statistics_have_the_noise_of_their_rows_and_not_a_tenth_less"
RELEASE = "dpmcmc/queries/statistics/release.py"
LAPLACE = "dpmcmc/privacy/discrete_laplace.py"
SMOOTHED = "dpmcmc/queries/statistics/mechanisms.py"

SINGLE = (
    Bug(
        "one Laplace noise for all rows",
        RELEASE,
        "with_laplace",
        "laplace_noise(random, STATISTIC_LAPLACE, z, scale, sums.shape)",
        "laplace_noise(random, STATISTIC_LAPLACE, z, scale, (1,)).repeat(sums.size)",
        f"{STATISTICS}::test_each_number_has_noise_of_its_own[sequential]",
    ),
    Bug(
        "rows told in the order of the file",
        RELEASE,
        "release",
        "values = shuffled(values, random)",
        "shuffled(values, random)",
        f"{STATISTICS}::test_rows_are_told_in_an_order_that_says_nothing_of_them[laplace]",
    ),
    Bug(
        "the first rows of the file in the first stage",
        "dpmcmc/queries/statistics/two_stages.py",
        "release_of_stages",
        "values, split = (shuffled(values, random), plan.first.schema.rows)",
        "split = plan.first.schema.rows",
        "tests/privacy/test_two_stages.py::test_chance_says_which_rows_are_first",
    ),
    Bug(
        "medians whose failure uses up no delta",
        "dpmcmc/privacy/filter.py",
        "entry_cost",
        "units_up(failure)",
        "0",
        "tests/api/test_inferences.py::test_a_median_needs_a_share_of_delta_for_its_failure",
    ),
    Bug(
        "half of the Laplace noise",
        RELEASE,
        "with_laplace",
        "log2_scale(z)",
        "log2_scale(z) - 1",
        f"{CLAIMED}[laplace-batch]",
    ),
    Bug(
        "half of a statistic's sensitivity",
        RELEASE,
        "with_gaussian",
        "float(GAUSSIAN_CELLS)",
        "0.5 * float(GAUSSIAN_CELLS)",
        f"{CLAIMED}[gaussian-sequential]",
    ),
    Bug(
        "what is no number counts as any",
        RELEASE,
        "in_cells",
        "share = np.nan_to_num((plan.statistic.of(values) - low) / (high - low))\n"
        "return np.clip(np.rint(share * most), 0.0, float(most)).astype(np.int64)",
        "share = (plan.statistic.of(values) - low) / (high - low)\n"
        "return np.nan_to_num(np.rint(share * most), nan=-1.0).astype(np.int64)",
        f"{STATISTICS}"
        "::test_replacing_a_row_moves_what_gets_noise_by_the_sensitivity_at_most[batch-power-1.0-5.0]",
    ),
    Bug(
        "two cells of the Laplace proof dropped",
        LAPLACE,
        "cells",
        "math.floor((1 << log2_scale(noise_multiplier)) / Fraction(noise_multiplier)) - 2",
        "math.floor((1 << log2_scale(noise_multiplier)) / Fraction(noise_multiplier))",
        f"{STATISTICS}::test_the_grid_leaves_laplace_noise_its_full_size[1.0]",
    ),
    Bug(
        "zero has two signs",
        LAPLACE,
        "_proposed",
        "good & ~(negative & (size == 0))",
        "good",
        f"{STATISTICS}::test_noise_is_the_discrete_laplace[1]",
    ),
    Bug(
        "flips rounded down",
        LAPLACE,
        "_threshold",
        "1.0 + 2.0 ** (-40)",
        "1.0 - 2.0 ** (-40)",
        f"{STATISTICS}::test_an_answer_is_flipped_often_enough[1.0]",
    ),
    Bug(
        "one flip for all rows",
        RELEASE,
        "with_flips",
        "flips(random, RANDOMISED_RESPONSE, plan.epsilon, values.shape)",
        "flips(random, RANDOMISED_RESPONSE, plan.epsilon, (1,)).repeat(values.size)",
        f"{STATISTICS}::test_responses_are_flipped_as_often_as_is_charged",
    ),
    Bug(
        "local sensitivity in place of a smooth one",
        SMOOTHED,
        "smooth_sensitivity",
        "range(most + 1)",
        "range(1)",
        f"{STATISTICS}::test_the_smooth_sensitivity_changes_slowly[0.02]",
    ),
    Bug(
        "the usual smoothness at a large epsilon",
        SMOOTHED,
        "beta_of",
        "width * math.expm1(middle) - middle",
        "width * middle",
        f"{STATISTICS}::test_the_smooth_scale_keeps_delta[1e-06-20.0]",
    ),
    Bug(
        "half of the noise of a median",
        RELEASE,
        "with_smooth_laplace",
        "2.0 * (1.0 + 2.0 ** (-40))",
        "1.0 + 2.0 ** (-40)",
        f"{ORDERED}[median]",
    ),
    Bug(
        "rows of the first stage in both",
        "dpmcmc/queries/statistics/two_stages.py",
        "release_of_stages",
        "values[split:]",
        "values",
        "tests/privacy/test_two_stages.py::test_each_stage_has_its_noise_in_full",
    ),
    Bug(
        "Laplace noise charged as if there were twice as much",
        "dpmcmc/queries/statistics/plans.py",
        "_laplace",
        "Laplace(z)",
        "Laplace(2.0 * z)",
        f"{STATISTICS}::test_one_event_is_charged[laplace]",
    ),
)

SMOOTHLY = f"{STATISTICS}::test_rows_that_turn_one_by_one_change_the_smooth_sensitivity_slowly"
INTEGERS = (
    f"{STATISTICS}::test_the_integers_of_an_order_statistic_are_of_a_scale_that_changes_slowly"
)
MOMENTS = "tests/privacy/test_tables.py"
CELLS = f"{DISCRETE}::test_a_sum_of_more_cells_than_a_float_tells_apart_is_held"

ATTACKED = (
    Bug(
        "half of the replaced rows looked at",
        SMOOTHED,
        "reach",
        "-math.log(LEAST_SHARE) / beta",
        "-0.5 * math.log(LEAST_SHARE) / beta",
        f"{SMOOTHLY}[40-0.5]",
    ),
    Bug(
        "scales of so few cells that rounding shows",
        SMOOTHED,
        "",
        "LEAST_SHARE = 2.0**-20",
        "LEAST_SHARE = 2.0**-40",
        f"{INTEGERS}[1e-09-32.0]",
    ),
    Bug(
        "rounding of a scale not allowed for",
        SMOOTHED,
        "beta_of",
        "low - LOG_SCALE_STEP",
        "low",
        f"{INTEGERS}[1e-09-8.0]",
    ),
    Bug(
        "sums of any number of cells",
        "dpmcmc/kernels/arithmetic/rounding.py",
        "noised",
        "np.minimum(np.maximum(total / grid, -LARGEST_UNITS), LARGEST_UNITS)",
        "total / grid",
        f"{CELLS}[1.0-plain]",
    ),
    Bug(
        "rounding of a mean's sums not allowed for",
        "dpmcmc/queries/summaries/statistics.py",
        "",
        "2.0 * (1.0 + 2.0**-12)",
        "2.0",
        f"{MOMENTS}::test_rounding_of_many_rows_moves_a_mean_by_no_more_than_is_charged[1000]",
    ),
    Bug(
        "results of a job that did not succeed",
        "app/services/results/fetch.py",
        "_succeeded_job",
        'job.status != "succeeded"',
        "job.status is None",
        "tests/api/test_jobs.py"
        "::test_blocks_of_a_job_that_did_not_succeed_cannot_be_read[cancelled]",
    ),
)

SQUARES = "dpmcmc/releases/regression/statistics.py"
SUMS = "tests/privacy/test_sufficient_statistics.py"

SUMMING = (
    Bug(
        "sums charged as if a row were added",
        SQUARES,
        "sensitivity",
        "2.0 + 2.0 * square + 0.5 * square * square",
        "1.0 + square",
        f"{SUMS}::test_the_worst_neighbours_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "responses that are not cut",
        SQUARES,
        "_cells",
        "np.clip(y / bounds[1], -1.0, 1.0)",
        "y / bounds[1]",
        f"{SUMS}::test_no_neighbour_is_further_away_than_is_paid_for[1000.0-options0]",
    ),
    Bug(
        "sums with four fifths of their noise",
        SQUARES,
        "release",
        "sensitivity * SENSITIVITY_MARGIN + rounding(d, n * group, weight)",
        "0.8 * (sensitivity * SENSITIVITY_MARGIN + rounding(d, n * group, weight))",
        f"{SUMS}::test_neighbours_are_mu_apart_and_no_more",
    ),
    Bug(
        "sums charged at half of their noise",
        "dpmcmc/releases/sufficient_statistics.py",
        "event",
        "statistics.event(noise_multiplier, options.num_holders or 1)",
        "statistics.event(2.0 * noise_multiplier, options.num_holders or 1)",
        f"{COUNTED}[sufficient_statistics of linear]",
    ),
)

REPLAYED = (
    "tests/audit/test_replay.py::test_a_row_moves_an_answer_by_what_is_charged_and_nothing_else"
)
TOGETHER = (
    "tests/conformance/test_releases.py"
    "::test_all_parts_together_cost_what_one_release_of_the_multiplier_does"
)
ACCOUNTING = "tests/core/test_accounting_costs.py"

SEARCHED = (
    Bug(
        "parts of a summary charged as one",
        "dpmcmc/queries/summaries/call.py",
        "release",
        "len(plan.requests)",
        "1",
        f"{REPLAYED}[describe, 4 statistics]",
    ),
    Bug(
        "marginals charged as one",
        "dpmcmc/queries/synthetic/call.py",
        "release",
        "len(parts)",
        "1",
        f"{REPLAYED}[synthesise]",
    ),
    Bug(
        "all rows of a person used where fewer are paid for",
        "dpmcmc/fit/run.py",
        "run",
        "rows.open(permit).within(schema)",
        "rows.open(permit)",
        "tests/core/test_privacy_units.py"
        "::test_a_job_that_names_fewer_rows_is_planned_and_run_on_these",
    ),
    Bug(
        "all rows of a person counted where fewer are paid for",
        "dpmcmc/queries/paid.py",
        "opened",
        "rows.open(permit).within(schema)",
        "rows.open(permit)",
        "tests/api/test_privacy_units.py::test_one_row_of_each_person_takes_what_single_rows_take",
    ),
    Bug(
        "noise of tables that no verdict sees",
        "dpmcmc/queries/synthetic/checks.py",
        "_sd_of",
        "sum(levels / size for size in having)",
        "100.0 * sum(levels / size for size in having)",
        "tests/core/test_synthetic.py::test_the_errors_that_noise_causes_are_those_of_weighted_counts",
    ),
    Bug(
        "unusable tables paid for",
        "dpmcmc/queries/synthetic/call.py",
        "synthesise",
        "not plan.usable and not accept_low_quality",
        "False",
        "tests/core/test_low_quality.py"
        "::test_synthetic_tables_of_few_rows_are_refused_unless_that_is_accepted",
    ),
    Bug(
        "counts charged as if a row were added",
        "dpmcmc/mechanisms/counts.py",
        "",
        "math.sqrt(2.0)",
        "1.0",
        f"{MOMENTS}::test_replacing_one_row_moves_the_sums_of_a_mean_by_the_root_of_two_at_most",
    ),
    Bug(
        "half of the noise of a task",
        "dpmcmc/queries/paid.py",
        "settled",
        "Paid(z, event, Cost(epsilon, privacy.delta, accountant.gdp_mu(event)))",
        "Paid(0.5 * z, event, Cost(epsilon, privacy.delta, accountant.gdp_mu(event)))",
        f"{MOMENTS}::test_one_gaussian_event_spends_the_budget[synthetic]",
    ),
    Bug(
        "noise of the same words again",
        "dpmcmc/privacy/discrete.py",
        "discrete_gaussian",
        "tape[used:]",
        "tape",
        f"{LAW}[1]",
        compiled=True,
    ),
    Bug(
        "any sensitivity gets noise",
        "dpmcmc/privacy/discrete.py",
        "noisy_grid",
        "not LEAST_SENSITIVITY <= sensitivity <= MOST_SENSITIVITY",
        "sensitivity is None",
        f"{SITES}::test_a_sensitivity_that_loses_the_noise_is_refused[1e+300]",
    ),
    Bug(
        "released sums in cells of one dimension",
        "dpmcmc/privacy/discrete.py",
        "noisy_sums",
        "noisy_grid(sums.shape[-1], sensitivity, noise_multiplier)",
        "noisy_grid(1, sensitivity, noise_multiplier)",
        f"{DISCRETE}::test_the_grid_leaves_the_noise_its_full_size[1.0]",
    ),
    Bug(
        "two coins for each whole part of Laplace noise",
        "dpmcmc/privacy/discrete_laplace.py",
        "_wholes",
        "_exponential_coins(random, ones, 1)",
        "_exponential_coins(random, ones, 1) & _exponential_coins(random, ones, 1)",
        f"{STATISTICS}::test_noise_is_the_discrete_laplace[1]",
    ),
    Bug(
        "rows cut at twice their cap",
        EXACT,
        "clip_factor",
        "cap / size",
        "2.0 * cap / size",
        f"{JOINT}::test_no_neighbour_is_further_away_than_is_paid_for[1.0]",
    ),
    Bug(
        "scalars of rows not cut",
        EXACT,
        "scalar_cells",
        "np.fmin(np.fmax(values, 0.0), cap)",
        "np.fmax(values, 0.0)",
        f"{JOINT}::test_no_neighbour_is_further_away_than_is_paid_for[1000.0]",
    ),
    Bug(
        "scalars of rows below zero",
        EXACT,
        "scalar_cells",
        "np.fmax(values, 0.0)",
        "np.nan_to_num(values, nan=0.0)",
        f"{JOINT}::test_a_scalar_is_charged_as_a_matrix_of_one",
    ),
    Bug(
        "a score that turns round counts once",
        "dpmcmc/mechanisms/joint_sums.py",
        "Caps.units",
        "_unit(2.0 * self.score, self.shares[0])",
        "_unit(self.score, self.shares[0])",
        f"{JOINT}::test_the_worst_neighbours_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "a matrix that turns counts once",
        "dpmcmc/mechanisms/joint_sums.py",
        "Caps.units",
        "_unit(double * self.noise, self.shares[2])",
        "_unit(self.noise, self.shares[2])",
        f"{JOINT}::test_the_worst_neighbours_are_as_far_apart_as_is_paid_for",
    ),
    Bug(
        "rows that are left out add to joint sums",
        "dpmcmc/mechanisms/joint_sums.py",
        "_cells",
        "_without(block) if gaps else block",
        "block",
        f"{LEFT_OUT}::test_a_number_of_rows_rides_along_with_joint_sums_for_free",
    ),
    Bug(
        "sums of groups charged as those of rows",
        "dpmcmc/releases/regression/statistics.py",
        "grouped_sensitivity",
        "4.0 * math.sqrt(1.0 + weight * weight)",
        "2.0 * math.sqrt(1.0 + weight * weight)",
        f"{SUMS}::test_groups_move_more_than_single_rows_and_no_more_than_is_paid_for[5]",
    ),
    Bug(
        "rounding of a sensitivity's formula not charged",
        "dpmcmc/releases/regression/statistics.py",
        "release",
        "sensitivity * SENSITIVITY_MARGIN",
        "sensitivity",
        f"{SUMS}::test_the_sensitivity_allows_for_rounding[1-1-1.0]",
    ),
    Bug(
        "rounding of sums of squares not charged",
        "dpmcmc/releases/regression/statistics.py",
        "release",
        "sensitivity * SENSITIVITY_MARGIN + rounding(d, n * group, weight)",
        "sensitivity * SENSITIVITY_MARGIN",
        f"{SUMS}::test_the_sensitivity_allows_for_rounding[7-2000-30.0]",
    ),
    Bug(
        "rounding of iterates beyond the budget",
        "dpmcmc/releases/newton_path.py",
        "",
        "1.0 - 2.0**-40",
        "1.0",
        f"{TOGETHER}[noisy_quadratic]",
    ),
    Bug(
        "rounding of gradients beyond the budget",
        "dpmcmc/releases/dp_vi.py",
        "",
        "1.0 - 1e-9",
        "1.0",
        f"{TOGETHER}[dp_vi]",
    ),
    Bug(
        "several means dearer than one",
        "dpmcmc/releases/noisy_mean.py",
        "_multipliers",
        "noise_multiplier / math.sqrt(share)",
        "noise_multiplier * math.sqrt(share)",
        f"{TOGETHER}[noisy_mean]",
    ),
    Bug(
        "gradients around the mean at twice their share",
        "dpmcmc/releases/dp_vi.py",
        "_multipliers",
        "2.0 * directions / AROUND",
        "directions / AROUND",
        f"{TOGETHER}[dp_vi]",
    ),
    Bug(
        "half of the noise of a fit's gradients",
        "dpmcmc/releases/dp_vi.py",
        "_Fit._released",
        "release_sums(self._random, VARIATIONAL_GRADIENT, [sums], sensitivity, z)",
        "release_sums(self._random, VARIATIONAL_GRADIENT, [sums], 0.5 * sensitivity, z)",
        f"{REPLAYED}[dp_vi, known noise]",
    ),
    Bug(
        "half of the noise of a chain's first gradient",
        "dpmcmc/samplers/hamiltonian.py",
        "_gradients",
        "noisy_sums(sums, sensitivity, options.gradient_noise_multiplier or math.nan, noise)",
        "noisy_sums(sums, 0.5 * sensitivity, options.gradient_noise_multiplier or math.nan, noise)",
        f"{REPLAYED}[dp_hmc, cut]",
    ),
    Bug(
        "gradients of a path in cells of one dimension",
        "dpmcmc/families/rowwise.py",
        "RowTarget.hamiltonian_walk",
        "noisy_grid(d, sensitivity, path.noise_multiplier)",
        "noisy_grid(1, sensitivity, path.noise_multiplier)",
        f"{OWN}::test_cells_of_gradients_are_made_for_all_of_their_dimensions[dp_hmc]",
    ),
    Bug(
        "sums over many rows overflow",
        "dpmcmc/families/rowwise.py",
        "RowTarget.__init__",
        "2.0 ** (51 - math.ceil(math.log2(table.rows + 1.0)))",
        "2.0**51",
        f"{EXTREMES}::test_sums_over_many_rows_are_as_exact_as_over_few",
    ),
    Bug(
        "terms of a gradient as fine for any number of rows",
        "dpmcmc/families/rowwise.py",
        "term_grid",
        "min(digits, 52 - math.ceil(math.log2(rows + 1.0)))",
        "digits",
        f"{EXTREMES}::test_the_grid_of_a_gradient_is_so_coarse_that_all_rows_add_up_exactly[0.7-1099511627776]",
    ),
    Bug(
        "rounding of a batch's sums not charged",
        "dpmcmc/samplers/dp_penalty_subsampled.py",
        "rule_of",
        "rounding(batch)",
        "1.0",
        f"{EXTREMES}::test_cells_of_a_batch_allow_for_the_rounding_of_its_sums[1000000]",
    ),
    Bug(
        "numbers beyond their bounds in a mean",
        "dpmcmc/queries/summaries/statistics.py",
        "moments",
        "np.clip((values - middle) / half, -1.0, 1.0)",
        "(values - middle) / half",
        f"{MOMENTS}::test_numbers_beyond_their_bounds_move_a_mean_no_further",
    ),
    Bug(
        "rows beyond their bounds in a statistic",
        "dpmcmc/queries/statistics/mechanisms.py",
        "Statistic.of",
        "np.clip(np.asarray(x, np.float64), self.lower, self.upper)",
        "np.asarray(x, np.float64)",
        f"{STATISTICS}::test_rows_beyond_their_bounds_count_as_rows_at_them[batch]",
    ),
    Bug(
        "fewer replaced rows looked at than there are",
        "dpmcmc/queries/statistics/mechanisms.py",
        "smooth_sensitivity",
        "min(reach(beta), n)",
        "min(reach(beta), n // 2)",
        f"{STATISTICS}::test_the_smooth_sensitivity_is_that_of_a_search_over_all_data_sets[0.1-1]",
    ),
    Bug(
        "far sensitivities weighted down twice",
        "dpmcmc/queries/statistics/mechanisms.py",
        "smooth_sensitivity",
        "math.exp(-k * beta) * local",
        "math.exp(-(k + 1) * beta) * local",
        f"{STATISTICS}::test_the_smooth_sensitivity_is_that_of_a_search_over_all_data_sets[0.1-1]",
    ),
    Bug(
        "the tail of a median's noise reckoned too thin",
        "dpmcmc/queries/statistics/mechanisms.py",
        "beta_of",
        "math.log(1.0 / delta) + 2.0**-20",
        "math.log(1.0 / delta) - 2.0**-4",
        f"{INTEGERS}[0.01-0.03125]",
    ),
    Bug(
        "parts in parallel at the least delta",
        "dpmcmc/privacy/accountant.py",
        "delta",
        "max((delta(inner, epsilon) for inner in event.events))",
        "min((delta(inner, epsilon) for inner in event.events))",
        f"{ACCOUNTING}::test_parallel_parts_cost_as_the_dearest",
    ),
    Bug(
        "parts in parallel at the least epsilon",
        "dpmcmc/privacy/accountant.py",
        "epsilon",
        "max((epsilon(inner, delta) for inner in event.events))",
        "min((epsilon(inner, delta) for inner in event.events))",
        f"{ACCOUNTING}::test_parallel_parts_cost_as_the_dearest",
    ),
    Bug(
        "a failure not taken off delta",
        "dpmcmc/privacy/accountant.py",
        "delta_after_failure",
        "float(Fraction(delta) - failure)",
        "float(Fraction(delta))",
        f"{ACCOUNTING}::test_smooth_laplace_has_a_failing_share_of_delta",
    ),
    Bug(
        "Barker's mean moves half as far",
        "dpmcmc/samplers/dp_barker.py",
        "sensitivity",
        "2.0 * g / math.sqrt(batch)",
        "g / math.sqrt(batch)",
        f"{REPLAYED}[dp_barker, cut, batch 6 of 6]",
    ),
    Bug(
        "flips of twice the epsilon",
        "dpmcmc/queries/statistics/release.py",
        "with_flips",
        "flips(random, RANDOMISED_RESPONSE, plan.epsilon, values.shape)",
        "flips(random, RANDOMISED_RESPONSE, 2.0 * plan.epsilon, values.shape)",
        f"{REPLAYED}[randomised_response, epsilon 1]",
    ),
)

EARLY = "tests/core/test_early_stop.py"
ENDED = "tests/worker/test_early_stop.py"
UNTIL = "tests/core/test_until.py"

STOPPING = (
    Bug(
        "the rest of a budget's call is given back twice",
        "dpmcmc/fit/budget.py",
        "Budget.return_rest",
        "taken.use()",
        "pass",
        f"{EARLY}::test_the_rest_is_given_back_once_and_only_of_what_began_so",
    ),
    Bug(
        "the rest of a job is returned twice",
        "app/ledger/account.py",
        "return_rest",
        '"return" in entries',
        "False",
        "tests/ledger/test_account.py::test_a_return_leaves_exactly_what_was_drawn[sqlite]",
        error="sqlalchemy.exc.IntegrityError",
    ),
    Bug(
        "what stays of a job is a step less than it drew",
        "dpmcmc/privacy/drawn.py",
        "Metered.drawn",
        "self._planned[: self._count]",
        "self._planned[: max(self._count - 1, 1)]",
        f"{EARLY}::test_the_meter_tells_what_was_drawn[3]",
    ),
    Bug(
        "what stays of a job is what was planned",
        "app/ledger/account.py",
        "return_rest",
        "price(head.terms, drawn)",
        'read_cost(entries["post"].cost)',
        "tests/ledger/test_account.py::test_a_return_leaves_exactly_what_was_drawn[sqlite]",
    ),
    Bug(
        "any event may have been drawn",
        "app/ledger/account.py",
        "return_rest",
        "not begins(from_dict(json.loads(reserved.event)), drawn)",
        "False",
        "tests/ledger/test_account.py"
        "::test_what_is_not_how_the_job_began_gives_nothing_back[sqlite-drawn1]",
    ),
    Bug(
        "a second attempt returns what it did not draw",
        "worker/run.py",
        "_succeed",
        "claim.attempt == 1",
        "claim.attempt",
        f"{ENDED}::test_after_a_lost_worker_the_whole_debit_stays[sqlite-3]",
    ),
    Bug(
        "a run stops by its rows",
        "dpmcmc/releases/newton_path.py",
        "_Path.unseen",
        "float(np.median(np.linalg.eigvalsh(sums.curvature)))",
        "1e9 * float(np.abs(self._problem.data.y).min() - 3.0)",
        f"{EARLY}::test_where_a_run_stops_is_told_by_its_released_numbers[robust-400]",
    ),
    Bug(
        "after which round a job ends is told by its rows",
        "dpmcmc/releases/noisy_quadratic.py",
        "in_rounds",
        "k + 1",
        "k + 1 + int(rows.data.y.std() > 1.2)",
        f"{UNTIL}::test_where_it_ends_is_told_by_its_released_numbers[1-model]",
    ),
    Bug(
        "rounds cost twice what is reserved",
        "dpmcmc/releases/newton_path.py",
        "round_multipliers",
        "rounds - max(k, 1)",
        "rounds - 1 - max(k, 1)",
        f"{UNTIL}::test_the_rounds_cost_together_what_is_reserved_and_each_as_much_as_all_before",
    ),
    Bug(
        "the last look of a later round is not charged",
        "dpmcmc/releases/newton_path.py",
        "event",
        "look_multipliers(z_round, of_model)",
        "look_multipliers(z_round, of_model)[:-1]",
        f"{UNTIL}::test_the_rounds_cost_together_what_is_reserved_and_each_as_much_as_all_before",
    ),
    Bug(
        "half of the noise of a later round",
        "dpmcmc/releases/newton_path.py",
        "in_rounds",
        "look_multipliers(z, problem.of_model)",
        "look_multipliers(0.5 * z, problem.of_model)",
        f"{UNTIL}::test_each_round_costs_what_the_plan_says_and_the_budget_spends_it[model-2]",
        error="ValueError",
    ),
    Bug(
        "a job until reliable pays for one round, however many it drew",
        "dpmcmc/privacy/drawn.py",
        "Metered.drawn",
        "self._planned[: self._count]",
        "self._planned[: min(self._count, 10)]",
        f"{UNTIL}::test_each_round_costs_what_the_plan_says_and_the_budget_spends_it[model-3]",
    ),
    Bug(
        "a job until reliable goes on when it is",
        "dpmcmc/fit/run.py",
        "_until_reliable",
        "(False, stored) if spec.spend == 'all' else release.after_round()",
        "(False, stored)",
        f"{UNTIL}::test_it_begins_small_and_pays_for_what_it_drew",
    ),
    Bug(
        "noise beyond the plan is drawn",
        "dpmcmc/privacy/discrete.py",
        "gaussian_noise",
        "random.admit(noise_multiplier, shape)",
        "pass",
        f"{EARLY}::test_noise_beyond_the_plan_or_out_of_turn_is_not_drawn",
    ),
)

UNITS = "tests/core/test_privacy_units.py"
BY_UNIT = f"{UNITS}::test_a_replaced_person_moves_the_sums_by_what_is_charged"
PERSONS = (
    Bug(
        "a person is charged as one row",
        "dpmcmc/privacy/events.py",
        "of_units",
        "event.noise_multiplier / rows * ROUND_DOWN",
        "event.noise_multiplier",
        f"{UNITS}::test_noise_on_units_is_that_many_times_less[6]",
    ),
    Bug(
        "pure epsilon of a person is that of a row",
        "dpmcmc/privacy/events.py",
        "of_units",
        "event.epsilon * rows / ROUND_DOWN",
        "event.epsilon",
        f"{UNITS}::test_noise_on_units_is_that_many_times_less[2]",
    ),
    Bug(
        "a composition's parts are not converted",
        "dpmcmc/privacy/events.py",
        "of_units",
        "of_units(event.event, rows)",
        "event.event",
        f"{UNITS}::test_noise_on_units_is_that_many_times_less[2]",
    ),
    Bug(
        "a job on persons costs what it does on rows",
        "dpmcmc/planner/planning.py",
        "event",
        "unit_rows_of(schema, spec)",
        "1",
        f"{UNITS}::test_a_job_on_persons_costs_what_was_asked[dp_penalty]",
    ),
    Bug(
        "summaries of persons cost what they do of rows",
        "dpmcmc/queries/paid.py",
        "settled",
        "of_units(Gaussian(z), schema.unit_rows)",
        "Gaussian(z)",
        f"{UNITS}::test_noise_of_summaries_covers_a_person",
    ),
    Bug(
        "rows drawn at random are taken for persons",
        "dpmcmc/privacy/events.py",
        "of_units",
        'raise EventError(f"no cost is known of {event.kind} for units of several rows")',
        "return event",
        f"{UNITS}::test_events_without_a_proof_for_units_have_no_cost[event0]",
    ),
    Bug(
        "dp_vi is taken to clip persons",
        "dpmcmc/planner/resolve.py",
        "unit_rows_of",
        "release is not None and release.by_units",
        "release is not None",
        f"{UNITS}::test_a_job_on_persons_costs_what_was_asked[dp_vi]",
    ),
    Bug(
        "empty slots are counted",
        "dpmcmc/mechanisms/counts.py",
        "counted",
        "rows.present is None",
        "True",
        f"{UNITS}::test_what_an_empty_slot_holds_changes_nothing",
    ),
    Bug(
        "empty slots are rows of a model",
        "dpmcmc/formula/design.py",
        "Design.left_out",
        "table.present is None",
        "True",
        f"{UNITS}::test_what_an_empty_slot_holds_changes_nothing",
    ),
    Bug(
        "rows of a person are clipped one by one",
        "dpmcmc/releases/whitening.py",
        "by_unit",
        "unit_rows == 1",
        "True",
        BY_UNIT,
    ),
    Bug(
        "only a row of a person is clipped",
        EXACT,
        "sum_of_squares",
        "total.reshape(-1, each).sum(axis=1)",
        "total[::each]",
        f"{UNITS}::test_a_replaced_person_moves_the_sums_by_what_is_charged",
    ),
    Bug(
        "persons may be called row",
        "dpmcmc/inputs/schema.py",
        "PrivacyUnit.__post_init__",
        "self.column == ROW",
        "False",
        f"{UNITS}::test_no_column_of_persons_is_called_row",
    ),
    Bug(
        "persons and rows share a budget",
        "dpmcmc/fit/budget.py",
        "Budget.take",
        "before.calls and before.unit != unit",
        "False",
        f"{UNITS}::test_persons_and_rows_never_share_a_budget",
    ),
    Bug(
        "all empty slots hold one value",
        "dpmcmc/inputs/units.py",
        "_scattered",
        "(bits >> np.uint64(11)).astype(np.float64)",
        "0.0 * bits",
        f"{UNITS}::test_an_empty_slot_holds_what_is_public",
    ),
    Bug(
        "what an empty slot holds is a row's",
        "dpmcmc/inputs/units.py",
        "in_slots",
        "_scattered(column, empty)",
        "part[empty]",
        f"{UNITS}::test_an_empty_slot_holds_what_is_public",
    ),
)

LATER = (
    Bug(
        "parts of several holders stay apart for persons",
        "dpmcmc/privacy/events.py",
        "of_units",
        "return Compose(tuple(of_units(inner, rows) for inner in event.events))",
        "return type(event)(tuple(of_units(inner, rows) for inner in event.events))",
        f"{UNITS}::test_parts_of_several_holders_are_charged_one_after_the_other",
    ),
    Bug(
        "kept rows of a person depend on those of others",
        "dpmcmc/inputs/units.py",
        "Owners.grouped",
        "position.astype(np.uint64)",
        "order.astype(np.uint64)",
        f"{UNITS}::test_other_persons_keep_their_rows_whatever_one_person_has",
    ),
    Bug(
        "slots without a row counted in a mean",
        "dpmcmc/queries/summaries/statistics.py",
        "moments",
        "present &= rows.present",
        "present &= True",
        f"{UNITS}::test_what_an_empty_slot_holds_changes_nothing",
    ),
    Bug(
        "coins of Laplace noise that end too soon",
        LAPLACE,
        "_exponential_coins",
        "random.integers(k, (going.size,)) == 0",
        "random.integers(k + 1, (going.size,)) == 0",
        f"{STATISTICS}::test_noise_is_the_discrete_laplace[1]",
    ),
    Bug(
        "responses that are no numbers in sums of squares",
        SQUARES,
        "_cells",
        "np.isfinite(size) & np.isfinite(y)",
        "np.isfinite(size)",
        f"{SUMS}::test_no_neighbour_is_further_away_than_is_paid_for[0.1-options0]",
    ),
    Bug(
        "sums of groups with the digits of single rows",
        SQUARES,
        "release",
        "digits_of(n * group) // 2",
        "digits_of(n) // 2",
        f"{SUMS}::test_sums_of_groups_are_exact_in_any_order[50]",
    ),
    Bug(
        "a number of rows that weighs more than is charged",
        "dpmcmc/releases/noisy_mean.py",
        "_in_few_digits",
        "math.floor(digits * 2.0**10)",
        "math.ceil(digits * 2.0**10)",
        f"{LEFT_OUT}::test_a_number_of_rows_rides_along_with_noisy_means_for_free",
    ),
    Bug(
        "half of the noise of layers",
        "dpmcmc/releases/clips.py",
        "layers",
        "release(vectors, len(flat), rows, caps, z, random, gaps=gaps)",
        "release(vectors, len(flat), rows, caps, 0.5 * z, random, gaps=gaps)",
        "tests/core/test_clips.py::test_layers_have_all_the_noise_that_they_are_charged[False-1.0]",
    ),
    Bug(
        "less noise than is the next of the plan",
        "dpmcmc/privacy/drawn.py",
        "Metered.admit",
        "due[0].noise_multiplier != noise_multiplier",
        "due[0].noise_multiplier < noise_multiplier",
        f"{EARLY}::test_noise_beyond_the_plan_or_out_of_turn_is_not_drawn",
    ),
    Bug(
        "any short event counts as the beginning of another",
        "dpmcmc/privacy/drawn.py",
        "begins",
        "every[: len(some)] == some",
        "len(some) <= len(every)",
        f"{EARLY}::test_what_another_plan_began_with_is_no_beginning",
    ),
    Bug(
        "the same sums of a holder counted twice",
        "dpmcmc/releases/sufficient_statistics.py",
        "Sums.joined",
        "len(np.unique(noisy.gram, axis=0)) < len(noisy.gram)",
        "False",
        "tests/core/test_sufficient_statistics.py"
        "::test_rows_that_are_in_two_releases_are_not_counted_twice",
    ),
    Bug(
        "a redirect taken for a key that is revoked",
        "dpmcmc/client/answers.py",
        "check",
        "is_ours = status == httpx.codes.NO_CONTENT",
        "is_ours = not response.is_error",
        "tests/client/test_connection.py"
        "::test_an_answer_of_something_else_is_no_success[deleted-a page]",
    ),
    Bug(
        "sums of more digits than are added exactly",
        "dpmcmc/mechanisms/sums.py",
        "",
        "EXACT_BITS = 51",
        "EXACT_BITS = 56",
        "tests/privacy/test_sums.py::test_sums_of_blocks_are_added_by_any_tree",
    ),
    Bug(
        "rounding of joint sums unpaid",
        "dpmcmc/mechanisms/joint_sums.py",
        "rounding",
        "rows * (dimension + 1.0) * 2.0**-50",
        "0.0",
        "tests/privacy/test_joint_sums.py::test_the_sensitivity_allows_for_rounding",
    ),
    Bug(
        "what a curvature has below zero clipped as the whole",
        "dpmcmc/mechanisms/joint_sums.py",
        "_cells",
        "matrix_cells(roots, cap, unit, fine, minus, caps.minus, loops, each)",
        "matrix_cells(roots, cap, unit, fine, minus, caps.curvature, loops, each)",
        "tests/privacy/test_joint_sums.py"
        "::test_no_neighbour_is_further_away_where_curvatures_are_differences",
    ),
    Bug(
        "the range of an even power without its least value",
        "dpmcmc/queries/statistics/mechanisms.py",
        "Statistic.range",
        "0.0 if folds and self.lower < 0.0 < self.upper else low",
        "low",
        "tests/privacy/test_statistics.py"
        "::test_replacing_a_row_moves_what_gets_noise_by_the_sensitivity_at_most[batch-power-2.0-9.0]",
    ),
    Bug(
        "sums of a mean with noise for counts",
        "dpmcmc/queries/summaries/statistics.py",
        "SummaryRequest.of",
        "total / steps * (TABLE_SENSITIVITY / MOMENT_SENSITIVITY)",
        "total / steps",
        "tests/privacy/test_tables.py"
        "::test_replacing_one_row_moves_the_sums_of_a_mean_by_the_root_of_two_at_most",
    ),
    Bug(
        "a row in both stages",
        "dpmcmc/queries/statistics/two_stages.py",
        "release_of_stages",
        "values[:split]",
        "values[: split + 1]",
        "tests/privacy/test_two_stages.py::test_each_stage_has_its_noise_in_full",
    ),
    Bug(
        "many vectors drawn for one event",
        "dpmcmc/privacy/drawn.py",
        "Metered.admit",
        "len(shape) != 1",
        "False",
        "tests/core/test_early_stop.py::test_noise_beyond_the_plan_or_out_of_turn_is_not_drawn",
    ),
    Bug(
        "groups of two charged as single rows",
        "dpmcmc/releases/regression/statistics.py",
        "sensitivity_of",
        "group > 1",
        "group > 2",
        "tests/privacy/test_sufficient_statistics.py"
        "::test_groups_move_more_than_single_rows_and_no_more_than_is_paid_for[2]",
    ),
)

ASKED = "tests/api/test_access_requests.py"

ASKING = (
    Bug(
        "a dataset that is hidden may be asked for by its id",
        "app/services/accounts/requests.py",
        "create",
        "check_open(visible_dataset(session, caller, wanted.dataset))",
        "None",
        f"{ASKED}::test_nothing_says_whether_a_dataset_is_there",
    ),
    Bug(
        "an analyst sees the requests of others",
        "app/services/accounts/requests.py",
        "_request",
        'caller.role == "analyst"',
        "False",
        f"{ASKED}::test_an_analyst_answers_no_request_and_sees_no_others",
    ),
    Bug(
        "an analyst grants a request",
        "app/api/routes/access_requests.py",
        "decide",
        "caller.role != role",
        "False",
        f"{ASKED}::test_an_analyst_answers_no_request_and_sees_no_others",
    ),
    Bug(
        "an assistant's cap is read and not written",
        "dpmcmc/client/assistant.py",
        "Cap.take",
        "epsilon and rest >= 0.0",
        "False",
        "tests/api/test_assistant.py::test_threads_and_processes_share_what_is_left",
    ),
)

CHECKED = "tests/privacy/test_predictive_check.py"
CELLS = "dpmcmc/queries/checks/cells.py"

CHECKING = (
    Bug(
        "a row of a check is placed among the other rows",
        CELLS,
        "Histogram._codes",
        "place * self.bins",
        "(place - place.mean() + 0.5) * self.bins",
        f"{CHECKED}::test_replacing_one_row_moves_the_counts_by_the_root_of_two[linear]",
    ),
    Bug(
        "a row of a check counts as its response says",
        CELLS,
        "Histogram.counts",
        "np.bincount(codes, used, minlength=self.size)",
        "np.bincount(codes, used * (1.0 + codes), minlength=self.size)",
        f"{CHECKED}::test_replacing_one_row_moves_the_counts_by_the_root_of_two[poisson]",
    ),
    Bug(
        "rows that are left out of a check are counted",
        CELLS,
        "Histogram.counts",
        "(~self.design.left_out(table)).astype(np.float64)",
        "np.ones(table.rows)",
        f"{CHECKED}::test_a_unit_that_empties_moves_no_more_cells_than_it_has_rows",
    ),
    Bug(
        "a check of another's fit",
        "app/services/jobs/kinds/fitted.py",
        "_named",
        "select(JobRow).where(JobRow.id == job_id, JobRow.user_id == caller.id)",
        "select(JobRow).where(JobRow.id == job_id)",
        "tests/api/test_predictive_check.py::test_what_is_no_regression_of_ones_own_is_refused",
    ),
)

BUGS = (
    *LATER,
    *CHECKING,
    *PERSONS,
    *SUMMING,
    *SINGLE,
    *ATTACKED,
    *SEARCHED,
    *DRAWING,
    *DECIDING,
    *READING,
    *CHARGING,
    *OPENING,
    *RELEASING,
    *ANSWERING,
    *DESIGNING,
    *SEVERAL,
    *STOPPING,
    *ASKING,
)
