"""The equivalents in xnn of the public names of other libraries' layers, for a page and a test.

Text -> the names that it explains. A name in backquotes is one of xnn or, after `xjax.`, of xjax; a call names the
function before its arguments. Text without one gives the reason why there is no equivalent.
"""

_LAYER = "`Layer`: functions `init` and `apply` take the place of a module class, so nothing is bound to an instance"
_COMPOSITE = "`composite`: a function that calls layers by name"
_STATE = "`StateFns`: state is a second tree that `apply_with_state` takes and returns"
_TRANSFORM = "the transforms of xjax apply directly to layers, with params as an argument: "
_PARAMS = "params are a plain pytree: use `params.update`, `params.select` and `xjax.tree.map`"
_RNG = "keys are passed in calls: `rng.fold_in`, `rng.split`"
_SHARDING = "params have no metadata: make shardings by path with `params.labels`, and `xjax.device_put`"
_FP8 = "float8 products are not available: `with_precision` computes in bfloat16"
_BUILT = "a layer has no hooks: wrap its `init` and `apply` in another `Layer`"
_SIZES = "sizes of the input are never arguments: `init` infers them, so "

FLAX = {
    "`Dense`": "Dense", "`DenseGeneral`": "DenseGeneral", "`Einsum`": "Einsum", "`Embedding`": "Embed",
    "`Conv`": "Conv", "`ConvLocal`": "ConvLocal", "`ConvTranspose`": "ConvTranspose",
    "`BatchNorm(momentum=0.01, unbiased=False)` with Flax's defaults": "BatchNorm",
    "`LayerNorm`": "LayerNorm", "`RMSNorm`": "RMSNorm", "`GroupNorm`": "GroupNorm",
    "`InstanceNorm(scale=True, bias=True)`": "InstanceNorm",
    "`weight_norm`": "WeightNorm", "`spectral_norm`": "SpectralNorm",
    "`Dropout`, whose argument `broadcast` is broadcast_dims of Flax": "Dropout",
    "`PReLU`": "PReLU", "`serial`": "Sequential",
    "`MultiHeadAttention`": "MultiHeadAttention MultiHeadDotProductAttention SelfAttention",
    "`xjax.nn.dot_product_attention`": "dot_product_attention dot_product_attention_weights",
    "a mask is an array of bools, such as `xjax.numpy.tril`; combine masks with &":
        "make_attention_mask make_causal_mask combine_masks",
    "`LSTMCell`": "LSTMCell OptimizedLSTMCell", "`GRUCell`": "GRUCell", "`RNNCell`": "SimpleCell",
    "`ConvLSTMCell`": "ConvLSTMCell", "`scan_over_time` of a cell": "RNN RNNCellBase",
    "`bidirectional`": "Bidirectional",
    "not available: a variant of `GRUCell` with one gate fewer": "MGUCell",
    "`MaxPool`": "max_pool", "`AvgPool`": "avg_pool", "`xjax.lax.reduce_window`": "pool",
    "`xjax.nn` has the function; the layers are `Relu`, `Gelu`, `GLU` and so on":
        "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax logsumexp "
        "normalize one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus standardize swish tanh",
    "`xjax.nn.initializers`": "ones zeros ones_init zeros_init",
    "`repeat`": "scan", "`repeat(with_remat(layer), n)`": "remat_scan", "`with_remat`": "checkpoint remat",
    "`switch`": "switch", "`lambda_` of a function that reshapes": "BatchApply",
    "`describe`": "tabulate", _COMPOSITE: "compact compact_name_scope nowrap named_call share_scope",
    _LAYER: "Module apply init init_with_output",
    _TRANSFORM + "`xjax.vmap`, `xjax.grad`, `xjax.jit`, `xjax.lax.cond`":
        "vmap grad value_and_grad vjp jvp jit custom_vjp cond while_loop",
    _STATE: "Variable", _PARAMS: "FrozenDict DenyList broadcast map_variables merge_param unbox",
    _RNG: "fold_rngs", _BUILT: "intercept_methods disable_named_call enable_named_call override_named_call",
    _SHARDING: "LogicallyPartitioned PARTITION_NAME Partitioned add_metadata_axis get_logical_axis_rules "
               "get_partition_spec get_sharding logical_axis_rules logical_to_mesh logical_to_mesh_axes "
               "logical_to_mesh_sharding set_logical_axis_rules with_logical_constraint with_logical_partitioning "
               "with_partitioning",
    _FP8: "Fp8DirectDotGeneralOp Fp8DotGeneral Fp8DotGeneralOp Fp8Einsum NANOOFp8DotGeneralOp",
}

HAIKU = {
    "`Dense`": "Linear", "`Bias`": "Bias", "`Embedding`": "Embed EmbedLookupStyle",
    "`Conv`": "Conv1D Conv2D Conv3D ConvND",
    "`ConvTranspose`": "Conv1DTranspose Conv2DTranspose Conv3DTranspose ConvNDTranspose",
    "`DepthwiseConv`": "DepthwiseConv1D DepthwiseConv2D DepthwiseConv3D",
    "`serial(DepthwiseConv(window), Conv(features, 1))`": "SeparableDepthwiseConv2D",
    "`BatchNorm`, whose momentum is 1 - decay_rate": "BatchNorm",
    "`LayerNorm`": "LayerNorm", "`RMSNorm`": "RMSNorm", "`GroupNorm`": "GroupNorm",
    "`InstanceNorm(scale=True, bias=True)`": "InstanceNorm", "`spectral_norm`": "SpectralNorm SNParamsTree",
    "`params.ema` of a tree; `optim.ema` of updates": "ExponentialMovingAverage EMAParamsTree",
    "`Dropout`": "dropout", "`Flatten`": "Flatten", "`Reshape`": "Reshape", "`serial`": "Sequential",
    "`AvgPool`": "AvgPool avg_pool", "`MaxPool`": "MaxPool max_pool",
    "features are always last": "get_channel_index", "`MultiHeadAttention`": "MultiHeadAttention",
    "`RNNCell`": "VanillaRNN", "`LSTMCell`": "LSTM LSTMState", "`GRUCell`": "GRU",
    "`ConvLSTMCell`": "Conv1DLSTM Conv2DLSTM Conv3DLSTM",
    "`scan_over_time` of a cell": "RNNCore IdentityCore ResetCore dynamic_unroll static_unroll",
    "`serial` of recurrent layers": "DeepRNN deep_rnn_with_skip_connections",
    "`repeat`": "layer_stack LayerStackTransparencyMapping transparent", "`with_remat`": "remat", "`switch`": "switch",
    "`lambda_` of a function that reshapes": "BatchApply", "`xjax.nn.one_hot`": "one_hot",
    "`xjax.numpy.expand_dims`": "expand_apply", "`xjax.random.categorical`": "multinomial",
    _LAYER: "Module ModuleProtocol SupportsCall Transformed TransformedWithState MultiTransformed "
            "MultiTransformedWithState transform transform_with_state multi_transform multi_transform_with_state "
            "without_apply_rng without_state with_empty_state running_init to_module",
    _COMPOSITE: "name_scope name_like force_name current_name lift lift_with_state LiftWithStateUpdater "
                "transparent_lift transparent_lift_with_state Deferred",
    _STATE: "State MutableState get_state set_state get_current_state get_initial_state",
    _PARAMS: "Params MutableParams get_parameter get_params DO_NOT_STORE",
    _RNG: "PRNGSequence next_rng_key next_rng_keys maybe_next_rng_key maybe_get_rng_sequence_state "
          "replace_rng_sequence_state reserve_rng_keys with_rng",
    _BUILT: "intercept_methods MethodContext GetterContext SetterContext custom_creator custom_getter custom_setter",
    _TRANSFORM + "`xjax.vmap`, `xjax.grad`, `xjax.lax.scan`, `xjax.eval_shape`":
        "cond eval_shape fori_loop grad map scan value_and_grad vmap while_loop",
    "`describe`": "to_dot",
}

EQUINOX = {
    "`Dense`": "Linear", "`Embedding`": "Embedding", "`models.MLP`": "MLP", "`Identity`": "Identity",
    "`lambda_`": "Lambda", "`serial`": "Sequential", "`Conv`": "Conv Conv1d Conv2d Conv3d",
    "`ConvTranspose`": "ConvTranspose ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "`AvgPool`": "AvgPool1d AvgPool2d AvgPool3d", "`MaxPool`": "MaxPool1d MaxPool2d MaxPool3d",
    "`AdaptiveAvgPool`": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "`AdaptiveMaxPool`": "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d",
    "`AdaptiveAvgPool`, `AdaptiveMaxPool`": "AdaptivePool", "`xjax.lax.reduce_window`": "Pool",
    "`BatchNorm`": "BatchNorm", "`LayerNorm`": "LayerNorm", "`RMSNorm`": "RMSNorm", "`GroupNorm`": "GroupNorm",
    "`weight_norm`": "WeightNorm", "`spectral_norm`": "SpectralNorm", "`Dropout`": "Dropout", "`PReLU`": "PReLU",
    "`LSTMCell`": "LSTMCell", "`GRUCell`": "GRUCell", "`MultiHeadAttention`": "MultiheadAttention",
    "`Rotary`": "RotaryPositionalEmbedding", "`shared` and `with_shared`": "Shared",
    _STATE: "State StateIndex StatefulLayer make_with_state delete_init_state",
    "a call evaluates unless `train=True` is passed": "inference_mode",
}

TORCH = {
    "`Dense`": "Linear", _SIZES + "`Dense` is lazy": "LazyLinear", "`Bilinear`": "Bilinear", "`Embedding`": "Embedding",
    "`Embedding`, then `lambda_` of a sum over the bag": "EmbeddingBag",
    "`Identity`": "Identity", "`Flatten`": "Flatten", "`Reshape`": "Unflatten",
    "`serial`": "Sequential", "`named`; `parallel` if each layer has its own input": "ModuleDict ModuleList Container",
    "`Conv`": "Conv1d Conv2d Conv3d LazyConv1d LazyConv2d LazyConv3d",
    "`ConvTranspose`": "ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConvTranspose1d LazyConvTranspose2d "
                       "LazyConvTranspose3d",
    "`xjax.lax.conv_general_dilated_patches`": "Unfold", "the transpose of Unfold: `xjax.vjp` of its function": "Fold",
    "`MaxPool`": "MaxPool1d MaxPool2d MaxPool3d", "`AvgPool`": "AvgPool1d AvgPool2d AvgPool3d",
    "`AdaptiveAvgPool`": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "`AdaptiveMaxPool`": "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d",
    "`SumPool` between `lambda_` of the power and of the root": "LPPool1d LPPool2d LPPool3d",
    "random windows are not available: `MaxPool`": "FractionalMaxPool2d FractionalMaxPool3d",
    "pools return no indices: `Upsample`, or `ConvTranspose`": "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "`Upsample`": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "`Pad`": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
             "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
             "ZeroPad3d",
    "`PixelShuffle`": "PixelShuffle", "`PixelUnshuffle`": "PixelUnshuffle",
    "`lambda_(lambda x: x.reshape(*x.shape[:-1], groups, -1).swapaxes(-1, -2).reshape(x.shape))`": "ChannelShuffle",
    "`BatchNorm`": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
    "`BatchNorm(axis_name=...)`": "SyncBatchNorm", "`LayerNorm`": "LayerNorm", "`RMSNorm`": "RMSNorm",
    "`GroupNorm`": "GroupNorm",
    "`InstanceNorm`": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
                      "LazyInstanceNorm3d",
    "historical: use `GroupNorm` or `LayerNorm`, or write the formula in `lambda_`": "CrossMapLRN2d LocalResponseNorm",
    "`Dropout`": "Dropout", "`Dropout(rate, broadcast=(1,))`": "Dropout1d",
    "`Dropout(rate, broadcast=(1, 2))`": "Dropout2d", "`Dropout(rate, broadcast=(1, 2, 3))`": "Dropout3d",
    "`AlphaDropout`": "AlphaDropout", "`AlphaDropout(rate, broadcast=(1, 2))` for images": "FeatureAlphaDropout",
    "`Relu`": "ReLU", "`Relu6`": "ReLU6", "`LeakyRelu`": "LeakyReLU", "`PReLU`": "PReLU", "`RReLU`": "RReLU",
    "`Elu`": "ELU", "`Celu`": "CELU", "`Selu`": "SELU", "`Silu`": "SiLU", "`Mish`": "Mish",
    "`ExactGelu`; `Gelu` is its tanh form": "GELU", "`GLU`": "GLU", "`Sigmoid`": "Sigmoid",
    "`LogSigmoid`": "LogSigmoid", "`Softplus`": "Softplus", "`SoftSign`": "Softsign", "`Tanh`": "Tanh",
    "`TanhShrink`": "Tanhshrink", "`HardTanh`": "Hardtanh", "`HardSigmoid`": "Hardsigmoid", "`HardSwish`": "Hardswish",
    "`HardShrink`": "Hardshrink", "`SoftShrink`": "Softshrink", "`Threshold`": "Threshold",
    "`Softmax`": "Softmax Softmax2d", "`Softmin`": "Softmin", "`LogSoftmax`": "LogSoftmax",
    "`RNN`": "RNN RNNBase", "`LSTM`": "LSTM", "`GRU`": "GRU", "`RNNCell`": "RNNCell RNNCellBase",
    "`LSTMCell`": "LSTMCell", "`GRUCell`": "GRUCell",
    "`MultiHeadAttention`; `CrossAttention` for a second input": "MultiheadAttention",
    "`EncoderBlock`": "TransformerEncoderLayer", "`DecoderBlock`": "TransformerDecoderLayer",
    "`repeat` of `EncoderBlock`": "TransformerEncoder", "`repeat` of `DecoderBlock`": "TransformerDecoder",
    "`composite` of `whole(encoder)` and a decoder": "Transformer",
    "`losses.cross_entropy`": "CrossEntropyLoss NLLLoss NLLLoss2d",
    "`Dense`, then `losses.cross_entropy`; the products are not fused":
        "LinearCrossEntropyLoss LinearCrossEntropyOptions",
    "a hierarchical softmax is not available: `losses.cross_entropy`": "AdaptiveLogSoftmaxWithLoss",
    "`losses.binary_cross_entropy`, of logits": "BCELoss BCEWithLogitsLoss MultiLabelSoftMarginLoss SoftMarginLoss",
    "`losses.mse`": "MSELoss", "`losses.mae`": "L1Loss", "`losses.huber`": "HuberLoss SmoothL1Loss",
    "`losses.ctc`": "CTCLoss", "`losses.kl_divergence`": "KLDivLoss",
    "`losses.hinge` of the difference of two scores": "MarginRankingLoss",
    "one line with `xjax.numpy.maximum`": "HingeEmbeddingLoss MultiLabelMarginLoss MultiMarginLoss",
    "`losses.cosine_distance`": "CosineEmbeddingLoss CosineSimilarity",
    "`losses.triplet`": "TripletMarginLoss TripletMarginWithDistanceLoss",
    "the negative of `xjax.scipy.stats.norm.logpdf`": "GaussianNLLLoss",
    "the negative of `xjax.scipy.stats.poisson.logpmf`": "PoissonNLLLoss",
    "`xjax.numpy.linalg.norm` of the difference": "PairwiseDistance",
    _LAYER: "Module", "`init` returns the parameters, `init_state` returns the state":
        "Parameter ParameterDict ParameterList Buffer UninitializedParameter UninitializedBuffer factory_kwargs",
    "`xjax.pmap`, or `xjax.jit` with sharded arguments": "DataParallel",
}

OBJAX = {
    "`Dense`": "Linear", "`Conv`": "Conv2D", "`ConvTranspose`": "ConvTranspose2D", "`Dropout(1 - keep)`": "Dropout",
    "`BatchNorm(momentum=0.001, epsilon=1e-6, unbiased=False)` with Objax's defaults":
        "BatchNorm BatchNorm0D BatchNorm1D BatchNorm2D",
    "`BatchNorm(axis_name=...)`": "SyncedBatchNorm SyncedBatchNorm0D SyncedBatchNorm1D SyncedBatchNorm2D",
    "`GroupNorm`": "GroupNorm GroupNorm0D GroupNorm1D GroupNorm2D", "`serial`": "Sequential",
    "`params.ema` of the average and the mean of a batch": "ExponentialMovingAverage",
    "not available: keep the last values in `StateFns` of your own layer": "MovingAverage",
}

ELEGY = {
    "`Dense`": "Linear", "`Embedding`": "Embed", "`Conv`": "Conv", "`ConvTranspose`": "ConvTranspose",
    "`BatchNorm(momentum=0.01, unbiased=False)` with Elegy's defaults": "BatchNorm",
    "`LayerNorm`": "LayerNorm", "`GroupNorm`": "GroupNorm",
    "`Dropout`, whose argument `broadcast` is broadcast_dims of Elegy": "Dropout", "`Flatten`": "Flatten",
    "`models.MLP`": "MLP", "`lambda_`": "Lambda", "`serial`": "Sequential sequence",
    "not available: `Layer` of functions that call `init` and `apply` of the module": "FlaxModule",
}

_LOW_RANK = "not available: `serial(Dense(rank), Dense(features))` has fewer parameters too"
_CAUSAL = "not available: `MultiHeadAttention(features, heads, causal=True)`"
_APPROXIMATE = "approximate attention is not available: `MultiHeadAttention`, whose window limits the distance"
_STACK = "there is no stack of inputs: in a `composite`, a function passes values to layers by name"

TRAX = {
    "`Dense`": "Dense", "`Embedding`": "Embedding", "`Einsum`": "EinsumDense", "`Dropout`": "Dropout",
    "`Flatten`": "Flatten", "`lambda_`": "Fn PureLayer", "`Conv`": "Conv Conv1d", "`ConvTranspose`": "ConvTranspose",
    "`Conv(features, window, padding=\"CAUSAL\")`": "CausalConv",
    "`DepthwiseConv(window, padding=\"CAUSAL\")`": "CausalDepthwiseConv",
    "`ConvLocal`": "LocallyConnected1d", "`AvgPool`": "AvgPool AveragePooling", "`MaxPool`": "MaxPool",
    "`SumPool`": "SumPool", "`Upsample`": "NaiveUpsampling",
    "`LayerNorm(epsilon=1e-6)` with Trax's defaults": "LayerNorm",
    "`BatchNorm(momentum=0.001, unbiased=False)` with Trax's defaults": "BatchNorm",
    "not available: `GroupNorm` does not depend on the batch either": "FilterResponseNorm",
    "`Relu`": "Relu", "`LeakyRelu`": "LeakyRelu", "`Elu`": "Elu", "`Selu`": "Selu", "`ExactGelu`": "Gelu",
    "`Gelu`": "FastGelu", "`Silu`": "Swish", "`GLU`": "Glu", "`Sigmoid`": "Sigmoid", "`Tanh`": "Tanh",
    "`HardTanh`": "HardTanh", "`Softplus`": "Softplus", "`Exp`": "Exp", "`Softmax`": "Softmax",
    "`LogSoftmax`": "LogSoftmax",
    "`lambda_` of `xjax.numpy.clip(1 + x, 0, 1)`; `HardSigmoid` has the slope 1/6": "HardSigmoid",
    "`lambda_` of `xjax.numpy.maximum(a * x, 0)`; the slope is not learned": "ParametricRelu",
    "not available: a maximum with a learned number; `Bias` and `Relu` come near": "ThresholdedLinearUnit",
    "`lambda_` of the function: `xjax.numpy.sum`, `xjax.nn.logsumexp`, `xjax.lax.stop_gradient` and so on":
        "ArgMax Log LogSumExp Max Mean Min Negate StopGradient Sum ThresholdToBinary ToFloat",
    "`serial`": "Serial", "`parallel`": "Parallel", "`serial(FanOut(n), parallel(...))`": "Branch",
    "`residual`": "Residual", "`FanInSum`": "Add", "`FanInConcat`": "Concatenate",
    "`lambda_` of a function of a tuple": "Gate Multiply SubtractTop Split",
    _STACK: "Drop Dup Select Swap FlattenList SerialWithSideOutputs inputs_from_stack outputs_onto_stack",
    "`switch`, whose index is an input": "Cond", "`switch` with a random index": "RandomLayer",
    "`whole(layer, keep=True)`": "Cache",
    "`lambda_` of a function that reshapes": "BatchLeadingAxes MergeLastTwoAxes SplitLastAxis",
    "`xjax.lax.map`, whose batch_size is the size of a chunk": "Chunk",
    "reversible layers are not available: `with_remat` also saves memory":
        "ReversibleConcatenatePair ReversibleHalfResidual ReversibleLayer ReversiblePrintShape "
        "ReversibleRandomPermute ReversibleReshape ReversibleReshapePermute ReversibleSelect ReversibleSerial "
        "ReversibleSwap",
    "`scan_over_time` of a cell": "Scan", "`bidirectional`": "Bidirectional", "`LSTMCell`": "LSTMCell",
    "`GRUCell`": "GRUCell", "`LSTM`": "LSTM", "`GRU`": "GRU",
    "not available: `GRUCell` is the usual form, `ConvLSTMCell` has convolutions": "ConvGRUCell GeneralGRUCell",
    "not available: `GRU` also has gates": "SRU InnerSRUCell ScanSRUCell",
    "sequences start from zeros, or from a carry that is passed": "MakeZeroState",
    "`MultiHeadAttention`; `CrossAttention` for a second input": "Attention AttentionQKV ConfigurableAttention",
    "`MultiHeadAttention(features, heads, causal=True)`": "CausalAttention",
    "`DotProductAttention`; `ContextAttention` for a second input": "PureAttention SplitIntoHeads MergeHeads",
    "`xjax.nn.dot_product_attention`": "DotProductAttention DotProductCausalAttention attend",
    "`with_remat` of `MultiHeadAttention`": "SelfAttention", "`with_remat` of `CrossAttention`": "EncDecAttention",
    _CAUSAL: "ConvCausalAttention LowRankCausalAttention ModularCausalAttention MultiplicativeCausalAttention "
             "MultiplicativeConvCausalAttention MultiplicativeModularCausalAttention",
    _APPROXIMATE: "CausalFavor CausalFavorAttention Favor FavorAttention LSHSelfAttention MixedLSHSelfAttention "
                  "PureLSHSelfAttention PureLSHSelfAttentionWrapper EfficientAttentionBase apply_broadcasted_dropout "
                  "hash_vecs length_normalized look_adjacent permute_via_gather permute_via_sort",
    "a mask is an array of bools, such as `xjax.numpy.tril`; combine masks with &":
        "CreateAttentionMaskLayer EncoderDecoderMask PaddingMask mask_self_attention",
    "`SinusoidalPositions`": "PositionalEncoding SinCosPositionalEncoding",
    "not available: `SinusoidalPositions`, `LearnedPositions`":
        "AxialPositionalEncoding FixedBasePositionalEncoding InfinitePositionalEncoding TimeBinPositionalEncoding",
    "`Rotary`": "Rotate rotate",
    "not available in this form: `RelativeBias`, `ALiBi` and `Rotary` depend on distances":
        "PositionalEmbeddings RelativeAttention RelativeAttentionLMLayer RelativeAttentionLayer "
        "RelativeAttentionWrapper calc_funnel_ratio get_rel_att_inputs",
    "`lambda_` of `xjax.numpy.pad`": "ShiftRight ShiftRightCls",
    "not available: `AvgPool`, `Conv` with strides, `Upsample`":
        "AttentionResampling LinearPooling LinearUpsampling NoUpsampling",
    "`FeedForward`": "FeedForwardBlock",
    "not available: `MixtureOfExperts` also computes a part of the weights for each token":
        "BlockSparseFF LSHFF SparseFF SwitchSparseFF",
    _LOW_RANK: "FactoredDense LocallyConnectedDense LocallyConvDense LowRankDense MultiplicativeModularSparseDense "
               "SparseDenseWithOptions",
    "`losses.cross_entropy`": "CategoryCrossEntropy CrossEntropyLoss CrossEntropyLossWithLogSoftmax CrossEntropySum "
                              "WeightedCategoryCrossEntropy",
    "`losses.binary_cross_entropy`": "BinaryCrossEntropy BinaryCrossEntropyLoss BinaryCrossEntropySum",
    "`losses.mse`": "L2Loss", "`losses.huber`": "SmoothL1Loss",
    "`metrics.accuracy`": "Accuracy CategoryAccuracy WeightedCategoryAccuracy",
    "`xjax.numpy.all` of the right positions of each sequence": "SequenceAccuracy MaskedSequenceAccuracy",
    "`metrics.f1` of `metrics.confusion_matrix`": "MacroAveragedFScore",
    "`metrics.f1(confusion, average=\"weighted\")`": "WeightedFScore",
    "`xjax.numpy.vdot` of values and weights": "WeightedSum",
    "`xjax.nn.initializers`":
        "AtariConvInit GlorotNormalInitializer GlorotUniformInitializer KaimingNormalInitializer "
        "KaimingUniformInitializer LeCunNormalInitializer LeCunUniformInitializer OrthogonalInitializer "
        "RandomNormalInitializer RandomUniformInitializer ScaledInitializer",
    "`xjax.numpy.save`, `xjax.numpy.load`": "InitializerFromFile np_from_file np_to_file",
    _LAYER: "Layer", "a layer with parameters of your own: `Layer` of `init` and `apply`": "Weights",
    "`init` checks shapes, `describe` shows them":
        "AssertFunction AssertShape assert_shape PrintShape LayerError",
    "shapes are tuples, or `xjax.ShapeDtypeStruct`": "ShapeDtype signature",
    "values to log are results of a step": "SummaryImage SummaryScalar",
    _PARAMS: "EMPTY_STATE EMPTY_WEIGHTS GET_STATE_FROM_CACHE GET_WEIGHTS_FROM_CACHE flatten_weights_and_state "
             "nested_map to_list unflatten_weights_and_state",
    "`xjax.pmap`, or `xjax.jit` with sharded arguments; `xjax.device_put`":
        "Accelerate N_WEIGHTS_SHARDS for_n_devices jit_forward mean_or_pmean on_accelerator on_cpu "
        "reshape_by_device shard unshard unshard_in_pmap",
    "`xjax.numpy`": "jnp", "`xjax.random`": "random threefry_2x32_prange threefry_2x32_prf",
    "`xjax.random.uniform`": "RandomUniform", "`xjax.random.categorical`": "logsoftmax_sample",
    "`xjax.nn.one_hot`": "one_hot", "`xjax.nn.log_softmax`": "log_softmax",
    "`xjax.scipy.stats.multivariate_normal.logpdf`": "log_gaussian_pdf",
    "the sum of `xjax.scipy.stats.norm.logpdf`": "log_gaussian_diag_pdf",
    "the negative of `xjax.nn.logsumexp` of weighted log densities": "multigaussian_loss",
    "configs are frozen dataclasses, as in `models`": "layer_configure",
}

TABLES = {"flax.linen": FLAX, "haiku": HAIKU, "equinox.nn": EQUINOX, "torch.nn": TORCH, "objax.nn": OBJAX,
          "elegy.nn": ELEGY, "trax.layers": TRAX}


def as_markdown(module: str) -> str:
    """The table of one library, as docs/from_other_libraries.md has it."""
    rows = [f"| {', '.join(f'`{name}`' for name in names.split())} | {text} |"
            for text, names in TABLES[module].items()]
    return "\n".join([f"| `{module}` | here |", "|---|---|", *rows])
