{{- define "diffusion-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "diffusion-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "diffusion-operator.fullname" .) -}}
{{- end -}}

{{- define "diffusion-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion | toString) -}}
{{- end -}}
{{- end -}}

{{- /* Selectors are immutable, so nothing that a user or a version changes may be among these. */ -}}
{{- define "diffusion-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "diffusion-operator.commonLabels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "diffusion-operator.labels" -}}
{{ include "diffusion-operator.commonLabels" . }}
{{ include "diffusion-operator.selectorLabels" . }}
{{- end -}}

{{- /* For what hooks make: not selected by the Deployment, the Service or the monitors. */ -}}
{{- define "diffusion-operator.hookLabels" -}}
{{ include "diffusion-operator.commonLabels" . }}
app.kubernetes.io/name: {{ .Chart.Name }}-hook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* JSON of the namespaces that are watched; empty where all are. */ -}}
{{- define "diffusion-operator.namespaces" -}}
{{- if eq .Values.rbac.scope "namespaced" -}}
{{- .Values.watchNamespaces | default (list .Release.Namespace) | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- /* What all pods of this chart have; the caller adds containers. */ -}}
{{- define "diffusion-operator.podSpec" -}}
automountServiceAccountToken: true
enableServiceLinks: false # unknown DIFFUSION_OPERATOR_… variables are refused
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
