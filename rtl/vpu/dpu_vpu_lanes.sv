// The L lanes with what they share: the registers of a beat's operands, the control that goes along, the units of
// RECIP and RSQRT on NarrowLanes lanes, the gate tables' read ports.
// A beat that is let in comes out StageOut + 1 cycles later; nothing stalls.

module dpu_vpu_lanes
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  localparam int unsigned Beats = Cols / Lanes
) (
  input  logic                                clk_i,
  input  logic                                rst_ni,

  input  logic                                fire_i,
  input  control_t                            control_i,
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  config_t                             config_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic [15:0]                         row_i,
  input  logic [Cols*32-1:0]                  a_i,
  input  logic [Cols*32-1:0]                  b_i,
  input  logic [RowScalars-1:0][Lanes-1:0][31:0] rows_i,
  input  logic [Factors-1:0][Lanes-1:0][31:0] cols_i,

  input  gate_config_t [1:0]                  gate_i,
  output logic [Lanes-1:0]                    table_valid_o,
  output logic [Lanes-1:0]                    table_slot_o,
  output logic [Lanes-1:0][7:0]               table_index_o,
  input  gate_entry_t [Lanes-1:0]             table_entry_i,

  output logic                                valid_o,
  output control_t                            control_o,
  output logic [Lanes-1:0][31:0]              out_o,
  output logic [Lanes-1:0][31:0]              tap_o,
  output logic [Lanes-1:0]                    odd_o
);

  localparam int unsigned LaneW = (Lanes > 1) ? $clog2(Lanes) : 1;
  localparam int unsigned BeatW = (Beats > 1) ? $clog2(Beats) : 1;
  localparam int unsigned Narrow = (Lanes < NarrowLanes) ? Lanes : NarrowLanes;
  localparam int unsigned Parts = Lanes / Narrow;
  localparam int unsigned PartW = (Parts > 1) ? $clog2(Parts) : 1;

  // Control of each stage.
  logic [Stages-1:0]     valid_q;
  control_t              control_q [Stages];
  logic [WaitW-1:0]      wait_wr_q, wait_rd_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q   <= '0;
      wait_wr_q <= '0;
      wait_rd_q <= '0;
    end else begin
      valid_q <= {valid_q[Stages-2:0], fire_i};
      if (control_q[StageY].drop) valid_q[StageY+1] <= 1'b0;
      if (valid_q[StageX]) wait_wr_q <= wait_wr_q + WaitW'(1);
      if (valid_q[StageY]) wait_rd_q <= wait_rd_q + WaitW'(1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (fire_i) control_q[0] <= control_i;
  end
  for (genvar s = 1; s < Stages; s++) begin : gen_control
    always_ff @(posedge clk_i) begin
      if (valid_q[s-1]) control_q[s] <= control_q[s-1];
    end
  end

  assign valid_o   = valid_q[StageOut];
  assign control_o = control_q[StageOut];

  // Operands of a beat: a slice of a word, or L scalars.
  typedef logic [Beats-1:0][Lanes-1:0][31:0] wide_t;
  typedef logic [Beats-1:0][Lanes-1:0][15:0] half_t;
  wide_t                             a_wide, b_wide;
  half_t                             a_half, b_half;
  logic [BeatW-1:0]                  a_beat, b_beat;
  logic [LaneW-1:0]                  row;

  assign a_wide = wide_t'(a_i);
  assign b_wide = wide_t'(b_i);
  assign a_half = half_t'(a_i[Cols*16-1:0]);
  assign b_half = half_t'(b_i[Cols*16-1:0]);
  assign a_beat = (config_i.a.buffer == BufferParam) ? '0 : BeatW'(control_i.g);
  assign b_beat = (config_i.b.buffer == BufferParam) ? '0 : BeatW'(control_i.g);
  assign row    = LaneW'(32'(row_i) % Lanes);

  // Scalars that all lanes of a beat share: immediates, those of the row, in vector mode that of the column.
  logic [RowScalars-1:0][31:0] of_row;
  logic [Factors-1:0][31:0]    common;
  logic [Factors-1:0]          own_row, own_col;  // not these: each lane its own

  always_comb begin
    of_row = '0;
    common = '0;
    if (fire_i) begin
      for (int unsigned k = 0; k < RowScalars; k++) of_row[k] = rows_i[k][row];
      for (int unsigned k = 0; k < Factors; k++) begin
        case (config_i.kind[k])
          OperandImm0: common[k] = config_i.imm[0];
          OperandImm1: common[k] = config_i.imm[1];
          OperandRow:  common[k] = of_row[k];
          default:     common[k] = cols_i[k][0];
        endcase
      end
    end
  end
  for (genvar k = 0; k < Factors; k++) begin : gen_own
    assign own_row[k] = (config_i.kind[k] == OperandRow) & config_i.vector;
    assign own_col[k] = !(config_i.kind[k] inside {OperandImm0, OperandImm1, OperandRow}) & !config_i.vector;
  end

  // RECIP and RSQRT: the part's lanes go to the units, and what earlier parts gave waits for the last part.
  logic [Lanes-1:0][31:0]  argument, narrow;
  logic [Narrow-1:0][31:0] narrow_y;
  logic [PartW-1:0]        part_in, part_out;
  logic                    narrow_in, narrow_out;
  logic [Narrow-1:0]       unused_valid;

  assign part_in    = PartW'(control_q[StageArg].part);
  assign part_out   = PartW'(control_q[StageY].part);
  assign narrow_in  = valid_q[StageArg] & (control_q[StageArg].func inside {FunctionRecip, FunctionRsqrt});
  assign narrow_out = valid_q[StageY] & (control_q[StageY].func inside {FunctionRecip, FunctionRsqrt});

  for (genvar n = 0; n < Narrow; n++) begin : gen_recip
    dpu_recip u_recip (
      .clk_i,
      .rst_ni,
      .valid_i(narrow_in),
      .rsqrt_i(control_q[StageArg].func == FunctionRsqrt),
      .x_i    (argument[LaneW'(32'(part_in) * Narrow + n)]),
      .valid_o(unused_valid[n]),
      .y_o    (narrow_y[n])
    );
  end

  for (genvar l = 0; l < Lanes; l++) begin : gen_gather
    logic [31:0] early_q;
    always_ff @(posedge clk_i) begin
      if (narrow_out && part_out == PartW'(l / Narrow)) early_q <= narrow_y[l%Narrow];
    end
    assign narrow[l] = (part_out == PartW'(l / Narrow)) ? narrow_y[l%Narrow] : early_q;
  end

  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    logic [31:0]            a_q, b_q, sub_q, immediate_q;
    logic [Factors:0][31:0] factors;

    always_ff @(posedge clk_i) begin
      if (fire_i) begin
        a_q   <= (config_i.a.format == FormatF16) ? {16'd0, a_half[a_beat][l]} : a_wide[a_beat][l];
        b_q   <= (config_i.b.format == FormatF16) ? {16'd0, b_half[b_beat][l]} : b_wide[b_beat][l];
        sub_q <= config_i.vector ? rows_i[Sub][l] : of_row[Sub];
        immediate_q <= config_i.imm[config_i.op2_kind == OperandImm1];
      end
    end
    assign factors[Factors] = immediate_q;

    for (genvar k = 0; k < Factors; k++) begin : gen_factor
      logic [31:0] factor_q;
      always_ff @(posedge clk_i) begin
        if (fire_i && config_i.kind[k] != OperandNone) begin
          factor_q <= own_row[k] ? rows_i[k][l] : own_col[k] ? cols_i[k][l] : common[k];
        end
      end
      assign factors[k] = factor_q;
    end

    dpu_vpu_lane u_lane (
      .clk_i,
      .rst_ni,
      .valid_i      (valid_q[StageOut-1:0]),
      .control_i    (control_q),  // all of it: a slice would be a copy in each lane of the RTL simulator
      .gate_i,
      .a_i          (a_q),
      .sub_i        (sub_q),
      .b_i          (b_q),
      .factor_i     (factors),
      .wait_wr_i    (wait_wr_q),
      .wait_rd_i    (wait_rd_q),
      .table_valid_o(table_valid_o[l]),
      .table_slot_o (table_slot_o[l]),
      .table_index_o(table_index_o[l]),
      .table_entry_i(table_entry_i[l]),
      .argument_o   (argument[l]),
      .narrow_i     (narrow[l]),
      .out_o        (out_o[l]),
      .tap_o        (tap_o[l]),
      .odd_o        (odd_o[l])
    );
  end

endmodule
